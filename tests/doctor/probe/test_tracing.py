"""Operations are counted exactly, and booked on the expression that dispatched them."""

import ast
import linecache
from collections.abc import Callable

import pytest
import torch

from gradwright.doctor.probe.costs import Measured, extrapolate, loop_facts
from gradwright.doctor.probe.tracing import distinct_bytes, trace
from gradwright.doctor.session.place import Location


def element_loop(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for row in range(len(x)):
        for col in range(x.shape[1]):
            out[row, col] = 2 * x[row, col]
    return out


def row_loop(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for row in range(len(x)):
        out[row] = 2 * x[row]
    return out


def array(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


MEASURED = Measured("s", "forward", seconds=1.0, share=0.5, tried_on="x", minimum_bytes=0)


def test_operations_are_exact_and_placed() -> None:
    x = torch.ones(5, 7)
    found = trace(lambda: element_loop(x), seconds=10)
    # an element read or written is two selects, each product one operation, each write one copy; one empty_like
    assert found.operations == 35 * (2 + 1 + 2 + 1) + 1
    assert trace(lambda: array(x), seconds=10).operations == 2


def test_a_loop_over_elements_is_told_from_one_over_rows_and_from_none() -> None:
    x = torch.ones(40, 7)
    (elements,) = loop_facts(trace(lambda: element_loop(x), seconds=10), MEASURED)
    assert elements.iterations == 280
    assert (elements.operations, elements.views, elements.scalar_operations) == (280 * 6, 280 * 4, 280 * 2)
    assert elements.per_element
    assert elements.location.line == element_loop.__code__.co_firstlineno + 2
    assert elements.hot.line == elements.location.line + 2
    (rows,) = loop_facts(trace(lambda: row_loop(x), seconds=10), MEASURED)
    assert rows.iterations == 40
    assert rows.scalar_operations == 0 and not rows.per_element
    assert loop_facts(trace(lambda: array(x), seconds=10), MEASURED) == []


def pairs(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(len(x), len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            out[i, j] = (x[i] - x[j]).pow(2).sum()
    return out


def weighted_losses(x: torch.Tensor) -> torch.Tensor:
    loss = torch.zeros(())
    for i in range(len(x)):
        loss = loss + 0.5 * torch.nn.functional.mse_loss(x[i], x[0])
    return loss


def simulation(x: torch.Tensor) -> torch.Tensor:
    energy = torch.zeros(40)
    state = x[0]
    for step in range(40):
        state = state - 0.1 * state
        energy[step] = state.pow(2).sum()
    return energy


def test_a_loop_over_pairs_of_rows_works_towards_elements() -> None:
    (found,) = loop_facts(trace(lambda: pairs(torch.ones(8, 3)), seconds=10), MEASURED)
    assert found.per_element


@pytest.mark.parametrize("loop", [weighted_losses, simulation])
def test_a_number_for_each_round_makes_no_loop_over_elements(loop: Callable[[torch.Tensor], torch.Tensor]) -> None:
    (found,) = loop_facts(trace(lambda: loop(torch.ones(40, 7)), seconds=10), MEASURED)
    assert not found.per_element


def test_the_loops_around_a_replayed_one_did_not_run() -> None:
    text = "for epoch in range(2):\n    for i in range(40):\n        y = x[i] * 2\n"
    path = "<gradwright loop test>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    names = {"x": torch.ones(40)}
    inner = ast.Module(body=[ast.parse(text).body[0].body[0]], type_ignores=[])  # type: ignore[attr-defined]  # a for
    found = trace(lambda: exec(compile(inner, path, "exec"), names), seconds=10)
    (shape,) = loop_facts(found, MEASURED, Location(path, 2, 5, 3, 21))
    assert shape.location.line == 2
    (whole,) = loop_facts(found, MEASURED)
    assert whole.location.line == 1


def test_bytes_are_those_read_and_written_and_views_are_free() -> None:
    x = torch.ones(10)
    assert trace(lambda: x * 2, seconds=10).bytes == 80
    assert trace(lambda: x[2:5], seconds=10).bytes == 0
    assert distinct_bytes((x, x), x.view(2, 5)) == 40


def test_a_trace_that_takes_too_long_is_cut_and_says_so() -> None:
    found = trace(lambda: [element_loop(torch.ones(50, 50)) for _ in range(1000)], seconds=0.1)
    assert not found.complete and found.operations > 0


def test_tracing_leaves_no_trace() -> None:
    import sys

    before = sys.gettrace()
    trace(lambda: array(torch.ones(2)), seconds=1)
    assert sys.gettrace() is before


def test_extrapolation_follows_the_power_law() -> None:
    assert extrapolate((36, 72), (144, 288), 10_000) == 20_000
    assert extrapolate((36, 5), (144, 5), 10_000) == 5
