"""Operations are counted exactly, and booked on the expression that dispatched them."""

import torch

from gradwright.doctor.probe.costs import Measured, extrapolate, loop_facts
from gradwright.doctor.probe.tracing import distinct_bytes, trace


def element_loop(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * 2
    return out


def row_loop(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] * 2
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
    assert elements.scalar_operations >= elements.operations / 2
    assert elements.location.line == element_loop.__code__.co_firstlineno + 2
    assert elements.hot.line == elements.location.line + 2
    (rows,) = loop_facts(trace(lambda: row_loop(x), seconds=10), MEASURED)
    assert rows.iterations == 40
    assert rows.scalar_operations == 0
    assert loop_facts(trace(lambda: array(x), seconds=10), MEASURED) == []


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
