import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import Function

from gradwright.doctor.observe.errors import death as death_module
from gradwright.doctor.observe.errors.death import describe_death
from gradwright.doctor.session.codec import decode, encode
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import ScriptDeath

HERE = Path(__file__).read_text(encoding="utf-8").splitlines()


def describe(error, is_user_file=lambda path: path == __file__):
    return describe_death(error, is_user_file=is_user_file, relative=lambda path: Path(path).name, subject_id="script")


def death_of(work, **options):
    try:
        work()
    except BaseException as error:
        return describe(error, **options)
    raise AssertionError("it did not die")


def clues(fact, name):
    return [text for key, text in fact.details if key == name]


def text_at(location):
    return HERE[location.line - 1][location.column - 1 : location.end_column - 1]


class Loud:
    """Its repr must not be asked for."""

    asked = 0

    def __repr__(self):
        Loud.asked += 1
        return "loud"


# --- where it died ---------------------------------------------------------------------------------------------------


def test_the_location_is_the_innermost_expression_of_the_users():
    def work():
        loss = torch.randn(5, requires_grad=True)
        return [1, loss.backward(), 3]

    told, fact = death_of(work)
    assert text_at(fact.location) == "loss.backward()"
    assert told.location == fact.location
    assert fact.function.endswith("work")
    assert fact.line_text == "return [1, loss.backward(), 3]"
    assert clues(fact, "expression") == ["loss.backward()"]


def test_columns_are_counted_in_characters():
    def work():
        ḡrad, λ = {"µ": 1.0}, "ß"
        return ("ünïcödé", ḡrad[λ])

    _, fact = death_of(work)
    assert text_at(fact.location) == "ḡrad[λ]"


def test_a_chain_over_several_lines_is_told_whole():
    def work():
        x = torch.randn(3, requires_grad=True)
        (
            x.exp()
            .log()
            .backward()
        )  # fmt: skip

    _, fact = death_of(work)
    assert clues(fact, "differentiated") == ["x.exp().log()"]
    assert clues(fact, "shape") == ["[3]"]


def test_the_tensors_of_the_frame_are_told_by_shape_not_by_value():
    def work():
        weight = torch.full((4, 2), 7.25, requires_grad=True)
        scaled = weight * 2
        flag = scaled > 0
        raise ValueError(f"no {flag.dtype}")

    _, fact = death_of(work)
    assert fact.tensors == (
        "weight float32[4, 2] (requires grad)",
        "scaled float32[4, 2] (has a graph)",
        "flag bool[4, 2]",
    )


def test_an_exception_outside_of_the_users_files_has_no_location():
    told, fact = death_of(lambda: 1 / 0, is_user_file=lambda path: False)
    assert told.location is fact.location is None
    assert told.type == "ZeroDivisionError"


def test_a_syntax_error_is_located_in_the_file_it_is_in():
    try:
        compile("def f(:\n    pass\n", "model.py", "exec")
    except SyntaxError as error:
        told, _ = describe(error, is_user_file=lambda path: path == "model.py")
    assert (told.location.path, told.location.line, told.location.column) == ("model.py", 1, 7)
    assert told.type == "SyntaxError"


def test_what_is_told_goes_through_the_journal():
    told, fact = death_of(lambda: torch.randn(2, requires_grad=True).backward())
    assert decode(Fact, encode(fact)) == fact
    assert decode(ScriptDeath, encode(told)) == told


# --- the traceback ---------------------------------------------------------------------------------------------------


def test_frames_of_ours_are_left_out_of_the_traceback(monkeypatch):
    ours = str(Path(death_module.__file__))
    scope = {}
    exec(compile("def served(work):\n    return work()\n", ours, "exec"), scope)

    def work():
        raise KeyError("lr")

    told, _ = death_of(lambda: scope["served"](work))
    assert ours not in told.traceback
    assert told.traceback.startswith("Traceback (most recent call last):\n")
    assert told.traceback.endswith("KeyError: 'lr'\n")
    assert 'raise KeyError("lr")' in told.traceback


def test_a_chain_of_exceptions_is_kept():
    def work():
        try:
            1 / 0  # noqa: B018 - the first link
        except ZeroDivisionError as error:
            raise RuntimeError("the step failed") from error

    told, _ = death_of(work)
    assert "ZeroDivisionError: division by zero" in told.traceback
    assert "The above exception was the direct cause" in told.traceback
    assert told.traceback.rstrip().endswith("RuntimeError: the step failed")


def test_the_repr_of_the_users_objects_is_never_asked_for():
    Loud.asked = 0

    def work():
        thing = Loud()
        try:
            raise KeyError(thing)
        except KeyError:
            raise ValueError(thing, torch.full((3,), 29 / 4), [1, 2])  # noqa: B904 - the context is what is tested

    told, fact = death_of(work)
    assert Loud.asked == 0
    assert told.message == fact.message == "<Loud>, <tensor float32[3]>, [1, 2]"
    assert "7.25" not in told.traceback
    assert "KeyError: <Loud>" in told.traceback
    assert told.traceback.rstrip().endswith("ValueError: <Loud>, <tensor float32[3]>, [1, 2]")


def test_an_exception_that_cannot_be_printed_is_told_by_its_type():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no")

    def work():
        raise Mute

    told, fact = death_of(work)
    assert told.type.endswith("Mute")
    assert (told.message, fact.location is not None) == ("", True)


def test_an_exception_group_is_told_whole():
    def work():
        raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])

    told, _ = death_of(work)
    assert "ValueError: a" in told.traceback
    assert "KeyError: 'b'" in told.traceback


def test_endless_recursion_is_told_in_bounded_text():
    def even(n):
        return odd(n + 1)

    def odd(n):
        return even(n + 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        told, fact = death_of(lambda: even(0))
    finally:
        sys.setrecursionlimit(limit)
    assert told.type == "RecursionError"
    assert fact.location is not None
    assert len(told.traceback.splitlines()) < 500


# --- clues -----------------------------------------------------------------------------------------------------------


def test_a_cut_in_a_called_function_is_found():
    def work():
        model = nn.Linear(2, 1)
        score = penalty(model, torch.ones(1, 2))
        score.backward()

    _, fact = death_of(work)
    (cut,) = clues(fact, "cut")
    assert "`.detach()`" in cut


def penalty(model, x):
    return model(x).detach().pow(2).sum()


def test_a_cut_in_the_forward_of_a_module_is_found():
    def work():
        net = Cutting()
        total = net(torch.ones(1, 2)).sum()
        total.backward()

    _, fact = death_of(work)
    assert any("`.data`" in cut for cut in clues(fact, "cut"))


class Cutting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x).data


def test_what_makes_targets_or_is_printed_is_no_cut():
    def work():
        model = nn.Linear(2, 1).requires_grad_(False)
        data = torch.randn(4, 2)
        labels = (data.sum(1) > 0).float().detach()
        score = (model(data).squeeze(1) - labels).pow(2).mean()
        print("score", score.item())
        score.backward()

    _, fact = death_of(work)
    assert clues(fact, "cut") == []
    assert clues(fact, "parameters") == ["model: 0 of 2 parameters require a gradient"]


def test_gradients_switched_on_again_are_not_blamed():
    def work():
        torch.set_grad_enabled(False)
        torch.set_grad_enabled(True)
        torch.ones(1).sum().backward()

    _, fact = death_of(work)
    assert clues(fact, "off") == []


def test_a_writer_of_another_shape_is_no_candidate():
    def work():
        x = torch.randn(3, requires_grad=True)
        counter = torch.zeros(2)
        y = x.exp()
        counter += 1
        y[0] = 0
        y.sum().backward()

    _, fact = death_of(work)
    (writer,) = clues(fact, "writer")
    assert writer.endswith("`y[0] = 0`")


def test_a_module_that_works_in_place_is_named():
    def work():
        net = nn.Sequential(nn.Sigmoid(), nn.ReLU(inplace=True))
        net(torch.randn(3, requires_grad=True) * 1).sum().backward()

    _, fact = death_of(work)
    assert clues(fact, "inplace_module") == ["net.1 (ReLU, inplace=True)"]


def test_state_carried_through_a_loop_is_named_and_a_bystander_is_not():
    def work():
        weight = torch.randn(3, requires_grad=True)
        bystander = weight.exp()
        running = torch.zeros(())
        for _ in range(3):
            print(bystander.shape)
            running = running + (weight**2).sum()
            running.backward()

    _, fact = death_of(work)
    (carried,) = clues(fact, "carried")
    assert carried.startswith("`running`")
    assert clues(fact, "made_outside") == []


def test_of_two_classes_with_one_name_neither_is_blamed():
    def first():
        class Twin(Function):
            @staticmethod
            def forward(ctx, x, y):
                return x + y

            @staticmethod
            def backward(ctx, grad_output):
                return grad_output

        return Twin

    def second():
        class Twin(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad_output):
                return grad_output

        return Twin

    kept = first(), second()

    def work():
        kept[0].apply(torch.ones(2, requires_grad=True), torch.ones(2)).sum().backward()

    _, fact = death_of(work)
    assert fact.cause is None
    assert clues(fact, "node") == ["Twin"]


def test_the_cause_of_a_wrong_count_is_the_return_that_counts_so():
    class Branching(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, grad_output):
            if ctx.scale == 0:
                return None, None
            return grad_output * ctx.scale, None, None, grad_output

    def work():
        Branching.apply(torch.ones(2, requires_grad=True), 3).sum().backward()

    _, fact = death_of(work)
    assert text_at(fact.cause) == "grad_output * ctx.scale, None, None, grad_output"
    assert text_at(fact.location) == "Branching.apply(torch.ones(2, requires_grad=True), 3).sum().backward()"


def test_an_input_of_autograd_grad_that_is_unused_is_found_by_walking_the_graph():
    def work():
        x = torch.randn(3, requires_grad=True)
        shifted = x + 1
        aside = shifted * 2
        torch.autograd.grad(shifted.sum(), (x, aside))

    _, fact = death_of(work)
    assert clues(fact, "unused") == ["`aside` [3] (index 1)"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_end_that_was_asked_for_is_marked(kind):
    def work():
        raise kind

    _, fact = death_of(work)
    assert clues(fact, "ended") == ["on request"]


def test_an_in_place_line_of_a_forward_whose_frame_is_gone_is_told_as_such():
    def work():
        net = Doubling()
        net(torch.randn(2, 3)).sum().backward()

    _, fact = death_of(work)
    assert clues(fact, "writer") == []
    assert any(line.endswith("`hidden *= 2` in forward") for line in clues(fact, "inplace_line"))


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.layer(x).sigmoid()
        hidden *= 2
        return hidden


def test_an_unreduced_loss_behind_a_method_is_found():
    def work():
        Fitting().fit()

    _, fact = death_of(work)
    (unreduced,) = clues(fact, "unreduced")
    assert unreduced.endswith("`self.criterion(self.net(x), x)`")


class Fitting:
    def __init__(self):
        self.net = nn.Linear(2, 2)
        self.criterion = nn.L1Loss(reduction="none")

    def cost(self, x):
        return self.criterion(self.net(x), x)

    def fit(self):
        (self.cost(torch.randn(6, 2)) * 2).backward()
