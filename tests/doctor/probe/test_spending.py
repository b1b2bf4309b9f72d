"""The seconds of a real call, divided as a call on the clock was."""

import types
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gradwright.doctor.probe import spending
from gradwright.doctor.probe.costs import Measured, operations_fact
from gradwright.doctor.probe.line_seconds import Line, Taken
from gradwright.doctor.probe.spending import Spent, or_told, several_on_a_line, spent, spent_in_calls
from gradwright.doctor.probe.tracing import Trace, trace
from gradwright.doctor.session.facts import OpsPerLine


def product(x: Tensor) -> Tensor:
    y = x @ x
    total = sum(range(3))
    return (y + 1) * y + total


def line_of(function: types.FunctionType, number: int) -> Line:
    return function.__code__, function.__code__.co_firstlineno + number


def traced(function: Callable[[Tensor], object]) -> Trace:
    x = torch.ones(4, 4)
    return trace(lambda: function(x), seconds=10.0)


TAKEN = Taken({line_of(product, 1): 5.0, line_of(product, 2): 1.0, line_of(product, 3): 2.0}, rest=2.0)
MEASURED = Measured("s", "forward", seconds=0.1, share=1.0, tried_on="x", minimum_bytes=64)


def columns_and_seconds(fact: OpsPerLine) -> list[tuple[int, int, int, float]]:
    first = product.__code__.co_firstlineno
    return [
        (cost.location.line - first, cost.location.column, cost.operations, pytest.approx(cost.seconds))
        for cost in fact.lines
    ]


def test_lines_and_what_is_left_to_python_add_up_to_the_real_call() -> None:
    found = spent(traced(product), TAKEN, 0.1)
    assert sum(found.expressions.values()) + sum(found.lines.values()) == pytest.approx(0.08)


def test_expressions_on_one_line_share_its_time_as_their_operations_take_it() -> None:
    found = traced(product)
    assert several_on_a_line(found)
    on_it = [key for key, counts in found.instructions.items() if counts.line == line_of(product, 3)[1]]
    weights = dict(zip(on_it, (2.0, 1.0, 1.0), strict=True))
    shares = spent(found, TAKEN, 0.1, of_operations=weights).expressions
    assert [shares[key] for key in on_it] == pytest.approx([0.01, 0.005, 0.005])
    evenly = spent(found, TAKEN, 0.1, of_operations={on_it[0]: 2.0}).expressions
    assert [evenly[key] for key in on_it] == pytest.approx([0.02 / 3] * 3)


def test_a_fact_tells_the_time_of_each_expression_and_of_lines_that_only_python_works_on() -> None:
    found = traced(product)
    fact = operations_fact(found, MEASURED, spent(found, TAKEN, 0.1))
    assert columns_and_seconds(fact) == [
        (1, 9, 1, 0.05),
        (3, 13, 1, pytest.approx(0.02 / 3)),
        (3, 12, 1, pytest.approx(0.02 / 3)),
        (3, 12, 1, pytest.approx(0.02 / 3)),
        (2, 5, 0, 0.01),
    ]
    assert fact.seconds == 0.1 and fact.flops == 2 * 4**3


def test_a_python_line_of_less_than_a_hundredth_is_not_told_of() -> None:
    short = Taken({**TAKEN.lines, line_of(product, 2): 0.01}, rest=2.0)
    found = traced(product)
    assert all(cost.operations for cost in operations_fact(found, MEASURED, spent(found, short, 0.1)).lines)


def many(x: Tensor) -> Tensor:
    for _ in range(2):
        x = x + (1 - (x - (x - (x - (x - (x - (x - (x - (x - (x - (x - (x - 1))))))))))))
    return x @ x


def test_the_slowest_expression_is_told_of_though_many_dispatch_more() -> None:
    found = traced(many)
    taken = Taken({line_of(many, 2): 2.0, line_of(many, 3): 98.0})
    fact = operations_fact(found, MEASURED, spent(found, taken, 0.1))
    slowest = max(fact.lines, key=lambda cost: cost.seconds)
    assert (slowest.location.line, slowest.operations, slowest.seconds) == (line_of(many, 3)[1], 1, 0.098)
    untimed = operations_fact(found, MEASURED)
    assert len(untimed.lines) == 12 and not any(cost.seconds or cost.operations < 2 for cost in untimed.lines)


def test_a_line_that_runs_more_often_in_the_real_call_has_a_greater_part_of_it() -> None:
    found = spent(traced(product), TAKEN, 0.1, grown={line_of(product, 1): 19.0})
    assert found.lines[line_of(product, 2)] == pytest.approx(0.001)
    assert sum(found.expressions.values()) == pytest.approx(0.097)


def test_what_was_cut_off_says_nothing_of_the_time_that_would_have_come() -> None:
    cut = Taken(TAKEN.lines, TAKEN.rest, complete=False)
    assert sum(spent(traced(product), cut, 1000.0).lines.values()) == 1.0
    assert sum(spent(traced(product), cut, 1.0).lines.values()) == pytest.approx(0.1)


def test_nothing_is_said_where_nothing_was_counted_or_no_time_went_by() -> None:
    assert spent(Trace(complete=False), TAKEN, 1.0) == Spent()
    assert spent(traced(product), Taken(), 1.0) == Spent()


def test_each_call_gets_arguments_of_its_own() -> None:
    given = []

    def prepare() -> Callable[[], object]:
        given.append(torch.ones(4, 4))
        return lambda x=given[-1]: product(x)

    found = spent_in_calls(prepare, traced(product), 1.0)
    assert len(given) >= 2 and len({id(one) for one in given}) == len(given)
    assert set(found.expressions) == set(traced(product).instructions)
    assert 0.0 < sum(found.expressions.values()) <= 1.0


def test_chance_is_what_it_was_after_calls_that_draw() -> None:
    state = torch.get_rng_state()
    spent_in_calls(lambda: lambda: torch.rand(3), Trace(), 1.0)
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_is_called_again_where_there_is_no_process_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "torch_survives_fork", lambda: False)
    assert spent_in_calls(lambda: pytest.fail("it was called"), traced(product), 1.0) == Spent()


def test_a_call_that_raises_the_second_time_is_told_of() -> None:
    def fails() -> list[Spent]:
        raise ValueError("only once")

    times, told = or_told(fails, "Slow", phases=2)
    assert list(times) == [Spent(), Spent()]
    assert [(one.what, one.why) for one in told] == [
        ("the time of Slow per line", "called again, it raised ValueError: only once")
    ]
    assert or_told(lambda: [Spent()], "Slow", phases=1) == ([Spent()], [])
