"""What is told of a Function's costs: seconds of lines belong to the real call, whatever was traced in its place."""

from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor

from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe import function_costs
from gradwright.doctor.probe.function_costs import _trace_both
from gradwright.doctor.probe.line_seconds import Line, Taken
from gradwright.doctor.probe.phases import OneCall, grown_lines, time_phases, traces
from gradwright.doctor.probe.shrink import elements
from gradwright.doctor.probe.sizing import Sizes
from gradwright.doctor.probe.tracing import trace
from gradwright.doctor.session.facts import OpsPerLine
from gradwright.doctor.session.model import NotExamined, Specimen, Subject
from gradwright.doctor.session.place import Location


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        y = torch.zeros_like(x)
        for row in range(len(x)):
            y[row] = x[row] ** 2
        return y

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        weights = sorted(range(10))
        return 2 * x * cotangents[0] * weights[1]


class OnlyOnce(Squared):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        OnlyOnce.calls += 1
        if OnlyOnce.calls > 1:
            raise RuntimeError("no more")
        ctx.save_for_backward(x)
        return x * 1


FORWARD, BACKWARD = 4e4, 1e4  # seconds that no machine takes for so small a call, however busy it is


def use_of(function: type[torch.autograd.Function]) -> FunctionUse:
    subject = Subject("f", "function", function.__name__, Location("t.py", 1))
    return FunctionUse(
        function, subject, forward_calls=2, backward_calls=4, forward_seconds=2 * FORWARD, backward_seconds=4 * BACKWARD
    )


def kept(*shape: int) -> Kept:
    return Kept(Specimen("p", "f", 1), (torch.ones(*shape, requires_grad=True),), (True,))


def facts_of(function: type[torch.autograd.Function], specimen: Kept, chosen: Sizes) -> list[OpsPerLine]:
    found = _trace_both(use_of(function), specimen, chosen, lambda seconds: 0.5)
    return [fact for fact in found if isinstance(fact, OpsPerLine)]


def test_lines_take_no_more_than_their_call_and_a_call_what_it_takes_once_it_is_warm() -> None:
    specimen = kept(6, 5)
    facts = facts_of(Squared, specimen, Sizes(specimen.args, specimen.args, None))
    for fact, in_the_run in zip(facts, (FORWARD, BACKWARD), strict=True):
        assert 0.0 < fact.seconds < in_the_run and not fact.shrunk  # thousands of times less, by then
        assert 0.0 < sum(line.seconds for line in fact.lines) <= fact.seconds * (1 + 1e-9)
        assert all(line.seconds > 0.0 for line in fact.lines if line.operations)


def test_of_a_call_that_was_cut_off_the_seconds_are_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Taken({body(Squared.forward, 5): 0.01}, complete=False)
    monkeypatch.setattr(function_costs, "time_phases", lambda *_: ([cut, Taken(complete=False)], [{}, {}]))
    specimen = kept(6, 5)
    facts = facts_of(Squared, specimen, Sizes(specimen.args, specimen.args, None))
    assert [fact.seconds for fact in facts] == [FORWARD, BACKWARD]


def body(method: Any, line: int) -> Line:
    function = getattr(method, "__func__", method)
    assert isinstance(function, FunctionType)
    return function.__code__, function.__code__.co_firstlineno + line


def test_the_line_that_took_fifty_times_as_long_is_told_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Taken({body(Squared.forward, 3): 1.0, body(Squared.forward, 5): 50.0}, rest=9.0)
    backward = Taken({body(Squared.backward, 3): 3.0, body(Squared.backward, 4): 1.0})
    monkeypatch.setattr(function_costs, "time_phases", lambda *_: ([forward, backward], [{}, {}]))
    specimen = kept(6, 5)
    ahead, back = facts_of(Squared, specimen, Sizes(specimen.args, specimen.args, None))
    by_line = {line.location.line: 0.0 for line in ahead.lines}
    for line in ahead.lines:
        by_line[line.location.line] += line.seconds
    assert (ahead.seconds, back.seconds) == (60.0, 4.0)  # with the way into the forward and out of it
    assert by_line[body(Squared.forward, 5)[1]] == pytest.approx(50.0)
    assert by_line[body(Squared.forward, 3)[1]] == pytest.approx(1.0)
    of_python = [line for line in back.lines if not line.operations]
    assert [(line.location.line, line.location.column) for line in of_python] == [(body(Squared.backward, 3)[1], 9)]
    assert of_python[0].seconds == pytest.approx(3.0)


def test_of_a_smaller_neighbour_the_lines_take_their_time_as_often_as_they_run_in_the_real_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = Taken({body(Squared.forward, 3): 1.0, body(Squared.forward, 5): 1.0})
    monkeypatch.setattr(function_costs, "time_phases", lambda *_: ([taken, Taken()], [{}, {}]))
    monkeypatch.setattr(function_costs, "_OPERATIONS", 10)
    traced, smaller = (torch.ones(12, requires_grad=True),), (torch.ones(6, requires_grad=True),)
    forward = facts_of(Squared, kept(1200), Sizes(traced, traced, smaller))[0]
    assert forward.shrunk
    once = next(line for line in forward.lines if line.location.line == body(Squared.forward, 3)[1])
    assert once.seconds == pytest.approx(FORWARD / 101)  # the other line runs a hundred times as often as was traced


def test_what_is_only_large_is_timed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []

    def time_them(function: Any, args: tuple[Any, ...], *_: Any) -> Any:
        timed.append(elements(args))
        return [Taken(), Taken()], [{}, {}]

    monkeypatch.setattr(function_costs, "time_phases", time_them)
    traced, smaller = (torch.ones(12, requires_grad=True),), (torch.ones(6, requires_grad=True),)
    for most_seconds in (2 * (FORWARD + BACKWARD), FORWARD + BACKWARD - 0.1):
        monkeypatch.setattr(function_costs, "_SECONDS", most_seconds)
        facts_of(Squared, kept(50), Sizes(traced, traced, smaller))
    assert timed == [50, 12]


def test_a_function_that_raises_when_it_is_called_again_keeps_its_counts() -> None:
    OnlyOnce.calls = 0
    specimen = kept(3)
    found = _trace_both(use_of(OnlyOnce), specimen, Sizes(specimen.args, specimen.args, None), lambda seconds: 0.5)
    told = [one for one in found if isinstance(one, NotExamined)]
    facts = [one for one in found if isinstance(one, OpsPerLine)]
    assert [one.why for one in told] == ["called again, it raised RuntimeError: no more"]
    assert facts[0].operations == 1 and not any(line.seconds for fact in facts for line in fact.lines)


def test_lines_grow_with_the_elements_by_the_power_law() -> None:
    small, large = ((n, trace(lambda n=n: Squared.apply(torch.ones(n)), seconds=10.0)) for n in (6, 12))
    grown = grown_lines(small, large, 1200)
    assert grown[body(Squared.forward, 5)] == 100.0 and grown[body(Squared.forward, 3)] == 1.0


def test_a_call_can_be_made_again_and_again_on_what_it_was_given() -> None:
    given = (torch.ones(3, requires_grad=True),)
    calls = [OneCall(Squared, given, (True,)) for _ in range(2)]
    for call in calls:
        call.forward()
        call.draw_cotangents()
        call.backward()
        call.given[0].data.zero_()
    assert torch.equal(calls[0].cotangents[0], calls[1].cotangents[0])
    assert torch.equal(given[0], torch.ones(3)) and torch.equal(calls[1].outputs[0], torch.ones(3))


def test_an_output_that_got_no_cotangent_in_the_run_gets_none() -> None:
    class WithResidual(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return x * 2, x.sin()

        @staticmethod
        def backward(ctx: Any, cotangent: Tensor, of_residual: Tensor | None) -> Tensor:
            if of_residual is not None:
                raise RuntimeError("not for this")
            return cotangent * 2

    given = (torch.ones(3, requires_grad=True),)
    (_, backward), _ = traces(WithResidual, given, (True,), (True, False))
    assert backward.complete and backward.operations == 1
    with pytest.raises(RuntimeError, match="not for this"):
        traces(WithResidual, given, (True,))


def test_phases_are_traced_and_timed_each_by_itself() -> None:
    given = (torch.ones(3, requires_grad=True),)
    (forward, backward), needed = traces(Squared, given, (True,))
    assert (forward.operations, backward.operations) == (1 + 3 * 4, 3)
    assert needed == (2 * 12, 3 * 12)
    (ahead, back), of_operations = time_phases(Squared, given, (True,), (forward, backward))
    assert {code for code, _ in ahead.lines} == {body(Squared.forward, 0)[0]}
    assert {code for code, _ in back.lines} == {body(Squared.backward, 0)[0]}
    assert [one.keys() for one in of_operations] == [forward.instructions.keys(), backward.instructions.keys()]


def test_cotangents_are_drawn_once_and_a_backward_that_writes_into_them_meets_them_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: list[Tensor] = []
    drawn: list[int] = []

    class Doubling(Squared):
        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            met.append(cotangents[0].clone())
            return cotangents[0].mul_(2)

    original = OneCall.draw_cotangents

    def counted(call: OneCall) -> None:
        drawn.append(1)
        original(call)

    monkeypatch.setattr(OneCall, "draw_cotangents", counted)
    given = (torch.ones(3, requires_grad=True),)
    time_phases(Doubling, given, (True,), traces(Doubling, given, (True,))[0])
    assert len(drawn) == 2 and len(met) > 2  # once to be traced, once to be timed
    assert all(torch.equal(one, met[0]) for one in met)


class Cubed(torch.autograd.Function):
    """Saves x; plain autograd of its forward saves x * x, too."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Cubed.calls += 1
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * cotangents[0]


class SavesAll(Cubed):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Cubed.calls += 1
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        _, square = ctx.saved_tensors
        return 3 * square * cotangents[0]


def test_a_function_that_saves_less_than_plain_autograd_is_timed_beside_it_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_costs, "_SECONDS_BESIDE", 600.0)
    calls = {}
    for function in (Cubed, SavesAll):
        Cubed.calls = 0
        twin = function_costs._beside_plain(use_of(function), kept(7, 3))
        assert twin is not None and twin.same_gradient
        assert (twin.plain_saved_bytes > twin.function_saved_bytes) == (function is Cubed)
        calls[function] = Cubed.calls
    assert calls[Cubed] + 2 * (function_costs._MOST_ROUNDS - function_costs._FEWEST_ROUNDS) == calls[SavesAll]
