"""A torch that lacks what an observer needs: that observer is left out and named, and nothing else is lost."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import Function

from gradwright.doctor.observe import watch as watching
from gradwright.doctor.observe.bound_earlier import bound_earlier_seen, find_bound_functions
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.functions import FunctionWatch
from gradwright.doctor.observe.gradients import GradientWatch
from gradwright.doctor.observe.guard import is_own_fault
from gradwright.doctor.observe.hand_updates import HandUpdateWatch
from gradwright.doctor.observe.looker import Looker
from gradwright.doctor.observe.lookers import list_files, lookers_in
from gradwright.doctor.observe.lookers.kept_graphs import KeptGraphs
from gradwright.doctor.observe.lookers.order import Order
from gradwright.doctor.observe.optimizers import OptimizerWatch
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.rules import judge
from gradwright.doctor.session.facts import FunctionCalls, GradientCalls, OptimizerSteps
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import CUSTOM_FUNCTIONS, GRADIENT_CALLS, Report
from gradwright.ground.torch_versions import apply, capability
from gradwright.ground.torch_versions.capability import Capability
from gradwright.ground.torch_versions.nodes import UnreadableNode

LOOKERS = [HandUpdateWatch, *(kind for file in list_files() for kind in lookers_in(file))]


class Cube(Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t**3

    @staticmethod
    def backward(ctx, grad_output):
        (t,) = ctx.saved_tensors
        return 3 * t**2 * grad_output


class ApplyInC:
    """``Function.__dict__["apply"]`` as torch 2.14 has it: it can be bound to a class, and has no ``__func__``."""

    def __init__(self, entry: Any) -> None:
        self._bind = entry.__get__

    def __get__(self, nothing: object, cls: type) -> Callable:
        bound = self._bind(nothing, cls)
        return lambda *args, **kwargs: bound(*args, **kwargs)


def train(steps: int = 3) -> list[float]:
    """Weights after a few steps through ``Cube``."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        Cube.apply(layer(torch.ones(4, 2))).sum().backward()
        optimizer.step()
    return layer.weight.detach().flatten().tolist()


@pytest.fixture
def watched(tmp_path: Path) -> Callable[[], Report]:
    """What is known of a training that is watched; its result is the same as ever."""

    def watch() -> Report:
        plain = train()
        with Journal(tmp_path / "journal") as journal, Watch(journal, Clock(), whole_script=False):
            assert train() == plain
        return fold(tmp_path / "journal")

    return watch


def fail_to_install(*_: object) -> None:
    torch._C._a_name_that_is_gone  # type: ignore[attr-defined]  # noqa: B018 - it raises


def calls_of(report: Report) -> tuple[int, int, int, int]:
    """Forwards and backwards of Functions, gradient calls, optimizer steps."""
    functions, gradients = list(report.of(FunctionCalls)), list(report.of(GradientCalls))
    return (
        sum(fact.forward_calls for fact in functions),
        sum(fact.backward_calls for fact in functions),
        sum(fact.calls for fact in gradients),
        sum(fact.steps for fact in report.of(OptimizerSteps)),
    )


def test_an_apply_of_either_kind_is_watched_and_put_back(
    watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calls_of(watched()) == (3, 3, 3, 3)
    in_c = ApplyInC(Function.__dict__["apply"])
    monkeypatch.setattr(Function, "apply", in_c)
    assert not hasattr(in_c, "__func__")
    assert calls_of(watched()) == (3, 3, 3, 3)
    assert Function.__dict__["apply"] is in_c


def test_an_apply_in_c_that_was_bound_earlier_is_left_alone_and_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Cube.apply
    monkeypatch.setattr(Function, "apply", ApplyInC(Function.__dict__["apply"]))
    with bound_earlier_seen() as able:
        assert not able
    assert bound.__self__ is Cube and Cube in find_bound_functions()  # type: ignore[attr-defined]  # a bound method


def test_a_function_of_which_no_apply_is_held_is_not_named() -> None:
    class Unheld(Cube):
        pass

    Unheld.apply(torch.ones(1))
    assert Unheld not in find_bound_functions()


@pytest.mark.parametrize("kind", LOOKERS, ids=lambda kind: kind.__name__)
def test_a_looker_that_cannot_be_installed_is_one_line_and_the_rest_is_seen(
    kind: type[Looker], watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "install", fail_to_install)
    report = watched()
    (left_out,) = report.not_examined
    assert left_out.what == kind.looks_at
    assert left_out.why.startswith(f"can't be watched with torch {torch.__version__}: AttributeError: ")
    assert "_a_name_that_is_gone" in left_out.why and "\n" not in left_out.why
    assert calls_of(report) == (3, 3, 3, 3) and report.unwatched == ()


def test_a_looker_whose_file_cannot_be_imported_is_one_line(
    watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(file: str) -> list[type[Looker]]:
        if file == "kept_graphs":
            raise ImportError("cannot import name '_gone' from 'torch._C'")
        return lookers_in(file)

    monkeypatch.setattr(watching, "lookers_in", without)
    report = watched()
    assert [item.what for item in report.not_examined] == ["training: kept graphs"]
    assert calls_of(report) == (3, 3, 3, 3)


@pytest.mark.parametrize(
    ("kind", "what", "seen"),
    [
        (FunctionWatch, {CUSTOM_FUNCTIONS}, (0, 0, 3, 3)),
        (GradientWatch, {GRADIENT_CALLS, "the training around the gradients"}, (3, 3, 0, 0)),
        (OptimizerWatch, {"optimizer steps", "the training around the gradients"}, (3, 3, 3, 0)),
    ],
)
def test_without_one_of_the_core_observers_the_others_see_what_they_can_and_nothing_is_found(
    kind: type, what: set[str], seen: tuple[int, ...], watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "install", fail_to_install)
    report = watched()
    assert {item.what for item in report.not_examined} == what
    assert calls_of(report) == seen
    assert set(report.unwatched) == what & {CUSTOM_FUNCTIONS, GRADIENT_CALLS}
    assert not judge(report.subjects, report.facts)


def test_functions_whose_backwards_cannot_be_seen_are_not_watched_at_all(
    watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their backwards would be told as never called."""
    monkeypatch.setattr(apply, "BackwardCFunction", type("Renamed", (), {"apply_once_more": None}))
    monkeypatch.setattr(capability, "_all", [*capability._all])
    monkeypatch.setattr(apply, "APPLY", Capability("Function.apply", "watching custom Functions"))
    report = watched()
    (left_out,) = report.not_examined
    assert (
        left_out.what == CUSTOM_FUNCTIONS and "has no BackwardCFunction.apply and no BackwardCFunction" in left_out.why
    )
    assert calls_of(report) == (0, 0, 3, 3)


def test_what_was_half_installed_is_taken_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = Function.__dict__["apply"]

    def install_half(self: FunctionWatch) -> None:
        Function.apply = classmethod(lambda cls, *args: None)  # type: ignore[method-assign,assignment]
        self._restore = lambda: setattr(Function, "apply", entry)
        fail_to_install()

    monkeypatch.setattr(FunctionWatch, "install", install_half)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        assert Function.__dict__["apply"] is entry


def test_a_looker_that_fails_later_is_asked_no_more_and_costs_the_others_nothing(
    watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, others = [], []

    def fail(self: Looker, *_: object) -> None:
        asked.append(self)
        fail_to_install()

    plain = Order.before_backward  # its file comes after that of kept_graphs
    monkeypatch.setattr(KeptGraphs, "before_backward", fail)
    monkeypatch.setattr(Order, "before_backward", lambda *given: (others.append(1), plain(*given))[1])  # type: ignore[func-returns-value]
    report = watched()
    assert len(asked) == 1 and len(others) == 3
    assert calls_of(report) == (3, 3, 3, 3)
    assert [item.what for item in report.not_examined] == ["part of what the script did"]
    assert "_a_name_that_is_gone" in (tmp_path / "journal").read_text()


def test_a_looker_that_meets_a_node_it_cannot_read_is_taken_off_and_named(
    watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Looker, *_: object) -> None:
        raise UnreadableNode("SumBackward0", "dim")

    monkeypatch.setattr(KeptGraphs, "before_backward", fail)
    report = watched()
    (line,) = report.not_examined
    assert line.what == KeptGraphs.looks_at and "saves no 'dim' in SumBackward0" in line.why
    assert calls_of(report) == (3, 3, 3, 3)


@pytest.mark.parametrize("when", ["facts", "remove"])
def test_whatever_fails_at_the_end_everything_is_taken_off(
    when: str, watched: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, backward = Function.__dict__["apply"], torch.autograd.backward
    monkeypatch.setattr(KeptGraphs, when, fail_to_install)
    assert calls_of(watched()) == (3, 3, 3, 3)
    assert Function.__dict__["apply"] is entry and torch.autograd.backward is backward


# --- whose fault an exception is -------------------------------------------------------------------------------------


def of_the_doctor(text: str) -> dict[str, object]:
    """Names that a piece of the doctor's own code defines, as far as a traceback can tell."""
    names: dict[str, object] = {"torch": torch, "SyntaxError": SyntaxError}
    path = Path(watching.__file__).with_name("planted.py")
    lines = textwrap.dedent(text).splitlines(keepends=True)
    linecache.cache[str(path)] = (len(text), None, lines, str(path))
    exec(compile("".join(lines), str(path), "exec"), names)
    return names


PLANTED = """
def our_own():
    return torch.tensor([]).no_such_name
def handed_on(original):
    return original(1)
def with_umlauts(original):
    return "äöü" and original(1)
def syntax():
    raise SyntaxError("invalid syntax", ("train.py", 1, 1, "x ="))
"""


def raised_by(call: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value


def test_an_exception_is_ours_only_where_our_own_expression_raised_it() -> None:
    ours = of_the_doctor(PLANTED)
    assert is_own_fault(raised_by(ours["our_own"]))
    assert not is_own_fault(raised_by(lambda: ours["handed_on"](len)))  # in C: the innermost frame is ours
    assert not is_own_fault(raised_by(lambda: ours["with_umlauts"](len)))
    assert not is_own_fault(raised_by(lambda: ours["handed_on"](lambda number: number.gone)))
    assert not is_own_fault(raised_by(ours["syntax"]))
    assert not is_own_fault(raised_by(lambda: {}["lr"]))
    assert not is_own_fault(KeyboardInterrupt())


def test_what_torch_refuses_in_c_through_a_stand_in_is_the_scripts_fault(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 1)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock(), whole_script=False):
        refused = [
            raised_by(lambda: torch.autograd.grad(layer(torch.ones(2)), [torch.ones(1)])),
            raised_by(lambda: Cube.apply(torch.ones(2), torch.ones(2))),
            raised_by(lambda: layer.train("no mode")),
            raised_by(lambda: torch.nn.functional.normalize(torch.ones(2), dim=7)),
            raised_by(lambda: torch.nn.utils.clip_grad_norm_(layer.parameters(), "no number")),
        ]
    assert not any(map(is_own_fault, refused))
