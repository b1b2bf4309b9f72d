"""Cheap loops of a Function are mended with the slow one beside them; what can't be goes without them."""

import ast
import re
import types
from dataclasses import replace
from typing import Any

import pytest
import torch

from gradwright.doctor.probe.seeing import call_function, see_in_call
from gradwright.doctor.rewrite import propose_loop
from gradwright.doctor.session.facts import LoopShape
from gradwright.doctor.session.model import Source
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.treatment.alongside import beside, with_those_beside

TEXT = '''import torch


class Cheapest(torch.autograd.Function):
    """The cheapest way through the columns of a table; its gradient marks the way."""

    @staticmethod
    def forward(ctx, cost, step):
        n, m = cost.shape
        total = torch.zeros_like(cost)
        came = torch.zeros(n, m, dtype=torch.long)
        for k in range(m):
            total[0, k] = cost[0, k]
        for row in range(1, n):
            for k in range(m):
                low, where = total[row - 1, 0] + step[0, k], 0
                for other in range(1, m):
                    if total[row - 1, other] + step[other, k] < low:
                        low, where = total[row - 1, other] + step[other, k], other
                total[row, k] = low + cost[row, k]
                came[row, k] = where
        ctx.save_for_backward(came, total)
        return total[n - 1].min()

    @staticmethod
    def backward(ctx, grad):
        came, total = ctx.saved_tensors
        marks, steps = torch.zeros_like(total), total.new_zeros(total.shape[1], total.shape[1])
        here = int(total[-1].argmin())
        for row in range(total.shape[0] - 1, 0, -1):
            marks[row, here] = grad
            before = int(came[row, here])
            steps[before, here] += grad
            here = before
        marks[0, here] = grad
        return marks, steps
'''
PATH = "cheapest.py"


def loaded(text: str) -> Any:
    """The Function of this text. Kernels stay the Python that they are: compiled they take seconds to begin with."""
    module = types.ModuleType("script")
    exec(compile(re.sub(r"@numba.njit.*\n", "", text), PATH, "exec"), vars(module))
    return module.Cheapest


def results(function: Any, cost: torch.Tensor, step: torch.Tensor) -> list[torch.Tensor]:
    mine = [one.clone().requires_grad_() for one in (cost, step)]
    found = function.apply(*mine)
    return [found.detach(), *torch.autograd.grad(found, mine, torch.tensor(0.5, dtype=cost.dtype))]


@pytest.fixture(scope="module")
def proposed() -> Any:
    """The proposal for the slow loop with those beside it, and without."""
    sites = find_loops(parse(TEXT.encode(), PATH))
    first, slow, back = sites
    function, args = loaded(TEXT), (torch.rand(5, 4), torch.rand(4, 4))

    def look(site: Any) -> Any:
        nodes = [n for n in ast.walk(ast.parse(TEXT)) if isinstance(n, ast.For) and n.lineno == site.line]
        names = function.forward.__globals__
        return see_in_call(nodes, ast.parse(TEXT), PATH, names, lambda: call_function(function, args, (True, True)))

    found, _ = propose_loop(PATH, TEXT, slow, look(slow))
    return with_those_beside(found[-1:], [first, back], Source(PATH, "", TEXT), look)


def test_the_loops_of_both_methods_come_along_in_one_proposal(proposed: Any) -> None:
    longer, alone = proposed
    assert longer.rewrite == alone.rewrite == "compile_kernel" and (longer.function, alone.function) == ("", "forward")
    assert "def _cheapest_backward(" in longer.added and "def _cheapest_backward(" not in alone.added
    first = "\n        for k in range(m):\n            total[0, k] = cost[0, k]\n"
    assert first not in longer.new_text and first in alone.new_text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_all_of_them_do_what_the_loops_did(proposed: Any, dtype: torch.dtype) -> None:
    old, new = loaded(TEXT), loaded(proposed[0].new_text)
    torch.manual_seed(0)
    for n, m in ((6, 4), (1, 1), (1, 3), (5, 1), (2, 2)):
        for cost, step in (
            (torch.randn(n, m), torch.randn(m, m)),
            (torch.randn(n, m).round(), torch.zeros(m, m)),  # ties
            (torch.full((n, m), float("nan")), torch.rand(m, m)),
            (torch.rand(n, m) / 0, torch.rand(m, m)),
        ):
            args = cost.to(dtype), step.to(dtype)
            for before, after in zip(results(old, *args), results(new, *args), strict=True):
                torch.testing.assert_close(after, before, equal_nan=True)


def test_a_loop_that_the_proposal_has_changed_is_no_loop_beside_it(proposed: Any) -> None:
    _, alone = proposed
    _, slow, _ = find_loops(parse(TEXT.encode(), PATH))
    assert with_those_beside([alone], [slow], Source(PATH, "", TEXT), lambda _: Seen()) == (alone,)


# --- which come along ------------------------------------------------------------------------------------------------


def shape(line: int, share: float, *, phase: Any = "forward", subject: str = "f", iterations: int = 50) -> LoopShape:
    place = Location(PATH, line)
    return LoopShape(
        id=f"{subject} {line}", subject=subject, phase=phase, location=place, hot=place, iterations=iterations,
        operations=100, scalar_operations=100, full_operations=100, extrapolated=False, seconds=share,
        share_of_step=share, tried_on="",
    )  # fmt: skip


def lines_beside(one: LoopShape, *shapes: LoopShape) -> list[int]:
    report: Any = types.SimpleNamespace(of=lambda _: [one, *shapes])
    return [found.location.line for found in beside(one, report)]


def test_a_cheap_loop_comes_along_if_it_makes_some_rounds_in_the_same_function() -> None:
    slow, cheap = shape(1, 0.95), shape(2, 0.004, phase="backward")
    assert lines_beside(slow, cheap) == [2]
    assert lines_beside(cheap, slow) == []
    assert lines_beside(slow, replace(cheap, iterations=3)) == []
    assert lines_beside(slow, replace(cheap, subject="g")) == []


def test_a_cheap_loop_goes_with_the_slow_one_of_its_own_method() -> None:
    forward, backward, cheap = shape(1, 0.6), shape(5, 0.35, phase="backward"), shape(6, 0.02, phase="backward")
    assert lines_beside(forward, backward, cheap) == []
    assert lines_beside(backward, forward, cheap) == [6]


def test_a_loop_that_is_slow_itself_has_a_fix_of_its_own() -> None:
    assert lines_beside(shape(1, 0.6), shape(2, 0.3)) == []
