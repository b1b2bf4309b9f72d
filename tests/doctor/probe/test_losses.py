"""Which loss a function is, told by its values: names, order and ways of writing make no difference."""

import sys

import pytest
import torch
from torch import Tensor, nn

import gradwright as gw
from gradwright.doctor.observe.losses import LossWatch
from gradwright.doctor.probe.losses.recognising import known_loss
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location


def q(u, v, w=0.5):
    d = (u - v).abs()
    return torch.where(d > w, w * (d - w / 2), d * d / 2).sum() / u.numel()


def log_of_softmax(u, v):
    s = u.exp() / u.exp().sum(1, keepdim=True)
    return sum(-torch.log(row[k]) for row, k in zip(s, v, strict=True)) / len(v)


def target_first(v, u):
    return nn.functional.nll_loss(torch.log(u.softmax(1)), v)


class Overlap(nn.Module):
    def __init__(self, extra: float) -> None:
        super().__init__()
        self.extra = extra

    def forward(self, u, v):
        u = 1 / (1 + torch.exp(-u))
        both = (u * v).flatten().sum()
        return 1 - (2 * both + self.extra) / (u.sum() + v.sum() + self.extra)


def none_of_ours(u, v):
    return ((u - v).abs() ** 1.5).mean()


def huber_gone_wrong(u, v):
    d = (u - v).abs()
    return torch.where(d > 1, d, d * d / 2).mean()


def huber_with_its_gradient_halved(u, v):
    return nn.functional.huber_loss((u + u.detach()) / 2, v)


def _pair(*shape: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(shape, requires_grad=True), torch.randn(shape)


def _rows() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(30, 7, requires_grad=True), torch.randint(0, 7, (30,))


def _masks() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 1, 9, 9, requires_grad=True), (torch.rand(2, 1, 9, 9) > 0.5).float()


def _known(function, *args, names: tuple[str, ...] = ("u", "v")) -> list:
    subject = Subject("callable:f", "callable", "f", Location("f.py", 1))
    return list(known_loss(subject, function, names, args))


@pytest.fixture(autouse=True)
def everything_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told must not hang on a stopwatch."""
    monkeypatch.setattr("gradwright.doctor.probe.losses.recognising._seconds", lambda *_: (1.0, 0.1))


def test_a_number_among_the_parameters_is_handed_on_by_its_name() -> None:
    (found,) = _known(q, *_pair(50), 0.5, names=("u", "v", "w"))
    assert found.call == "huber_loss(u, v, delta=w)"
    (found,) = _known(q, *_pair(50))
    assert found.call == "huber_loss(u, v, delta=w)"


@pytest.mark.parametrize("function", [log_of_softmax, target_first])
def test_a_logarithm_of_a_softmax_is_infinite_where_cross_entropy_is_not(function) -> None:
    u, v = _rows()
    given, names = ((u, v), ("u", "v")) if function is log_of_softmax else ((v, u), ("v", "u"))
    (found,) = _known(function, *given, names=names)
    assert found.call == "cross_entropy(u, v)"
    assert "at predictions of ±" in found.wrong_at


def with_an_epsilon(u, v):
    s = u.softmax(1)
    return -(s[torch.arange(len(v)), v] + 1e-8).log().mean()


def test_an_epsilon_that_bounds_the_loss_is_told_with_the_value_that_is_right() -> None:
    (found,) = _known(with_an_epsilon, *_rows())
    assert found.call == "cross_entropy(u, v)"
    assert "where" in found.wrong_at and "is right" in found.wrong_at


def soft_entropy(u, v):
    return -(v * torch.log(u.softmax(1))).sum(1).mean()


def divergence(u, v):
    p = u.exp() / u.exp().sum(-1, keepdim=True)
    return (v * (v / p).log()).sum() / len(u)


@pytest.mark.parametrize(
    ("function", "call"),
    [(soft_entropy, "cross_entropy(u, v)"), (divergence, "kl_div(u, v, from_logits=True)")],
)
def test_a_target_may_be_a_distribution_of_each_row(function, call: str) -> None:
    u, _ = _rows()
    v = torch.rand(30, 7).softmax(1)
    (found,) = _known(function, u, v)
    assert found.call == call and found.from_0_to_1 and found.wrong_at


def test_a_call_that_refuses_rows_of_no_classes_is_verified() -> None:
    u, _ = _rows()
    report = gw.diagnose(soft_entropy, u, torch.rand(30, 7).softmax(1))
    (finding,) = (one for one in report.findings if one.code == "GW510")
    assert finding.fix is not None and "gw.losses.cross_entropy(u, v" in finding.fix.diff
    assert any("refused where" in said for said in finding.fix.proof.on)


def test_one_hot_rows_are_distributions_too() -> None:
    u, labels = _rows()
    (found,) = _known(soft_entropy, u, torch.nn.functional.one_hot(labels, 7).float())
    assert found.call == "cross_entropy(u, v)"


def test_an_attribute_is_handed_on_as_one() -> None:
    module = Overlap(0.25)
    (found,) = _known(Overlap.forward, module, *_masks(), names=("self", "u", "v"))
    assert found.call == 'dice_loss(u, v, mode="binary", smooth=self.extra)'
    assert found.from_0_to_1


@pytest.mark.parametrize("function", [none_of_ours, huber_gone_wrong, huber_with_its_gradient_halved])
def test_what_is_none_of_ours_in_value_or_gradient_is_not_told(function) -> None:
    assert _known(function, *_pair(50)) == []


def test_a_loss_that_is_no_slower_and_nowhere_wrong_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwright.doctor.probe.losses.recognising._seconds", lambda *_: (1.0, 1.0))
    assert _known(lambda u, v: nn.functional.huber_loss(u, v), *_pair(50)) == []


def test_what_is_asked_about_gets_a_call_that_is_verified() -> None:
    report = gw.diagnose(log_of_softmax_by_index, *_rows())
    (finding,) = (one for one in report.findings if one.code == "GW510")
    assert finding.fix is not None and not finding.fix.unsafe
    assert "+    return gw.losses.cross_entropy(u, v" in finding.fix.diff


def log_of_softmax_by_index(u, v):
    return -torch.log(torch.softmax(u, 1)[torch.arange(len(v)), v]).mean()


def test_looking_on_ends_with_the_next_backward_and_leaves_a_profiler_alone() -> None:
    watch = LossWatch(pytest.fail)
    u, v = _rows()
    watch.after_backward()
    assert sys.getprofile() is not None
    log_of_softmax_by_index(u, v)
    watch.before_backward()
    assert sys.getprofile() is None
    (use,) = watch.uses.values()
    assert use.names == ("u", "v") and use.subject.name == "log_of_softmax_by_index"
    assert use.args[0].grad_fn is None and use.args[0].requires_grad

    def own(*_: object) -> None:
        """A profiler of the script's."""

    other = LossWatch(pytest.fail)
    sys.setprofile(own)
    try:
        other.after_backward()
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)


def test_a_fault_of_ours_while_looking_on_is_not_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("gradwright.doctor.observe.losses._function_of", broken)
    told: list[str] = []
    watch = LossWatch(told.append)
    u, v = _rows()
    watch.after_backward()
    try:
        log_of_softmax_by_index(u, v)
    finally:
        watch.before_backward()
    assert len(told) == 1 and "RuntimeError: ours" in told[0]
