"""What cut a loss from its graph, and what carried a graph into the next turn, named as the user wrote it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwright.doctor.observe.errors.death import describe_death

model = nn.Linear(4, 3)
x, y = torch.randn(8, 4), torch.randint(3, (8,))


def clues_of(work):
    try:
        work()
    except RuntimeError as error:
        fact = describe_death(
            error, is_user_file=lambda path: path == __file__, relative=lambda path: "here.py", subject_id="script"
        )[1]
        found: dict[str, str] = {}
        for name, text in fact.details:
            found[name] = f"{found.get(name, '')} {text}".strip()
        return found
    raise AssertionError("it did not die")


# --- cuts ------------------------------------------------------------------------------------------------------------


def by_item_in_a_list():
    losses = [F.cross_entropy(model(x), y).item() for _ in range(3)]
    torch.tensor(losses).mean().backward()


def by_item_appended():
    losses = []
    for _ in range(3):
        losses.append(F.cross_entropy(model(x), y).item())
    loss = torch.tensor(np.mean(losses))
    loss.backward()


def by_data():
    loss = F.cross_entropy(model(x), y).data
    loss.backward()


def by_detach_of_a_method():
    Trainer().fit()


class Trainer:
    def predict(self):
        self.out = model(x).detach()

    def fit(self):
        self.predict()
        self.loss = F.cross_entropy(self.out, y)
        self.loss.backward()


class Other:
    def predict(self):
        self.out = model(x).data


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            hidden = self.inner(x)
        return hidden * 2


frozen = Frozen()


def by_numpy():
    array = model(x).detach().numpy()
    torch.from_numpy(np.abs(array)).mean().backward()


def by_float():
    torch.as_tensor(float(F.cross_entropy(model(x), y))).backward()


def by_no_grad_around_it():
    with torch.no_grad():
        out = model(x)
    F.cross_entropy(out, y).backward()


def by_no_grad_in_a_module():
    F.cross_entropy(frozen(x), y).backward()


@torch.no_grad()
def predicted(x):
    return model(x)


def by_a_decorated_function():
    loss = F.cross_entropy(predicted(x), y)
    loss.backward()


def by_inference_mode():
    with torch.inference_mode():
        loss = F.cross_entropy(model(x), y)
    loss.backward()


def by_argmax():
    loss = (model(x).argmax(1) - y).float().abs().mean()
    loss.backward()


def by_a_comparison():
    hard = (model(x) > 0).float()
    hard.mean().backward()


def by_a_sample():
    loss = torch.distributions.Categorical(logits=model(x)).sample().float().mean()
    loss.backward()


CUTS = [
    (by_item_in_a_list, "`.item()` in"),
    (by_item_appended, "`.item()` in"),
    (by_data, "`.data` in"),
    (by_detach_of_a_method, "`.detach()` in `model(x).detach()`"),
    (by_numpy, "`.numpy()` in"),
    (by_float, "`float(...)` in"),
    (by_no_grad_around_it, "`with torch.no_grad()` around it"),
    (by_no_grad_in_a_module, "`with torch.no_grad()` around it"),
    (by_a_decorated_function, "@torch.no_grad() in"),
    (by_inference_mode, "`with torch.inference_mode()` around it"),
    (by_argmax, "`.argmax()` in"),
    (by_a_comparison, "a comparison in `model(x) > 0`"),
    (by_a_sample, "`.sample()` in"),
]


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize(("work", "words"), CUTS, ids=lambda item: getattr(item, "__name__", None))
def test_the_cut_is_named(work, words) -> None:
    assert words in clues_of(work)["cut"]


def test_what_another_class_does_is_no_cut() -> None:
    assert ".data" not in clues_of(by_detach_of_a_method)["cut"]


def test_targets_that_are_made_by_a_comparison_are_no_cut() -> None:
    def untracked():
        labels = (x[:, :3] > 0).float()
        F.mse_loss(x[:, :3] * 2, labels).backward()

    assert "cut" not in clues_of(untracked)


# --- entered again ---------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(4, 8)
        self.hidden = torch.zeros(2, 8)

    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)
        self.out = self.hidden * 2
        return self.out


recurrent = Recurrent()


def state_on_a_module():
    for _ in range(3):
        loss = recurrent(torch.randn(2, 4)).pow(2).mean()
        loss.backward()


class Fits:
    def __init__(self):
        self.lstm, self.state = nn.LSTM(4, 8), None

    def fit(self):
        for _ in range(3):
            out, self.state = self.lstm(torch.randn(5, 2, 4), self.state)
            self.loss = out.pow(2).mean()
            self.loss.backward()


def generator_and_critic():
    maker, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    fake = maker(torch.randn(3, 2))
    critic_loss = critic(fake).mean()
    critic_loss.backward()
    maker_loss = -critic(fake).mean()
    maker_loss.backward()


def test_state_that_a_module_carries_is_named_with_the_line_that_makes_it() -> None:
    assert "`recurrent.hidden` (here.py:" in clues_of(state_on_a_module)["carried"]
    assert "`self.state` (here.py:" in clues_of(Fits().fit)["carried"]


def test_what_is_made_anew_in_each_turn_is_not_carried() -> None:
    assert ".out`" not in clues_of(state_on_a_module)["carried"]
    assert ".loss`" not in clues_of(Fits().fit)["carried"]


def test_what_two_graphs_share_is_named() -> None:
    clues = clues_of(generator_and_critic)
    assert clues["shared"] == "fake" and "`critic_loss.backward()`" in clues["earlier_call"]


# --- written in place ------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.inner(x).tanh()
        hidden += x
        return hidden


class Activated(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.inner(x)


residual, activated = Residual(), Activated()


def by_a_line_of_a_module():
    residual(x).sum().backward()


def by_a_module_in_place():
    activated(x).sum().backward()


def by_rows_of_a_buffer():
    buffer, w = torch.zeros(5, 3), torch.randn(3, requires_grad=True)
    for t in range(1, 5):
        buffer[t] = torch.exp(buffer[t - 1] * w) + buffer[t - 1] ** 2
    buffer.sum().backward()


def by_an_out_argument():
    w = torch.randn(4, requires_grad=True)
    y = w.exp()
    with torch.no_grad():
        torch.add(y, 1, out=y)
    y.sum().backward()


def test_the_line_of_the_module_that_was_called_is_named_and_no_other() -> None:
    clues = clues_of(by_a_line_of_a_module)
    assert "`hidden += x` in forward" in clues["inplace_line"] and "buffer" not in clues["inplace_line"]
    assert "inplace_module" not in clues


def test_a_module_that_works_in_place_is_named_alone() -> None:
    clues = clues_of(by_a_module_in_place)
    assert clues["inplace_module"] == "activated.inner.2 (ReLU, inplace=True)"
    assert "inplace_line" not in clues and "writer" not in clues


def test_a_write_to_a_buffer_whose_rows_were_read_is_named() -> None:
    assert "`buffer[t] = torch.exp(" in clues_of(by_rows_of_a_buffer)["writer"]


def test_a_write_by_an_out_argument_is_named() -> None:
    assert "`torch.add(y, 1, out=y)`" in clues_of(by_an_out_argument)["writer"]
