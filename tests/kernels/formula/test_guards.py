"""No NaN comes out of a branch that is not taken: where ours differs from torch, and that it does nowhere else."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.kernels.formula.evaluated import Lazily, gradients, numbers, second_gradients
from tests.kernels.strategies import Drawn, formulas, values
from torch import Tensor

from gradwright.kernels.formula.expression import call, condition, constant, number, where
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read
from gradwright.kernels.formula.rules import RULES, Partial

# The same formula in ours and torch; where torch's derivative is NaN because a zero cotangent meets an infinite partial
# derivative of the branch that is not taken; and what is right. First derivatives, then second ones.
NAN_IN_TORCH: list[tuple[str, Callable[[Tensor], Tensor], float, float, float]] = [
    ("where(x > 0, sqrt(x), 0)", lambda x: torch.where(x > 0, x.sqrt(), 0.0), 0.0, 0.0, 0.0),
    ("where(x > 0, sqrt(x), x)", lambda x: torch.where(x > 0, x.sqrt(), x), -1.0, 1.0, 0.0),
    ("where(x > 0, x*log(x), 0)", lambda x: torch.where(x > 0, x * x.log(), 0.0), 0.0, 0.0, 0.0),
    ("where(x != 0, sin(x)/x, 1)", lambda x: torch.where(x != 0, x.sin() / x, 1.0), 0.0, 0.0, 0.0),
    ("where(x < 50, log(1 + exp(x)), x)", lambda x: torch.where(x < 50, (1 + x.exp()).log(), x), 1000.0, 1.0, 0.0),
    ("max(sqrt(x), 1)", lambda x: torch.maximum(x.sqrt(), torch.ones_like(x)), 0.0, 0.0, 0.0),
    ("min(1/x, 2)", lambda x: torch.minimum(1 / x, torch.full_like(x, 2)), 0.0, 0.0, 0.0),
    ("clamp(1/x, -3, 3)", lambda x: torch.clamp(1 / x, -3, 3), 0.0, 0.0, 0.0),
    (
        "where(x > 1, where(x > 2, x*x, sqrt(x - 2)), sqrt(x))",
        lambda x: torch.where(x > 1, torch.where(x > 2, x * x, (x - 2).sqrt()), x.sqrt()),
        1.0,
        0.5,
        -0.25,
    ),
]
# Here torch gives a number for the first derivative, and NaN for the second.
NAN_IN_TORCHS_SECOND: list[tuple[str, Callable[[Tensor], Tensor], float, float, float]] = [
    ("where(x > 0, x**1.5, x)", lambda x: torch.where(x > 0, x**1.5, x), 0.0, 1.0, 0.0),
]


def both_derivatives(text: str, x: float) -> tuple[float, float]:
    program, at = Program(("x",), (read(text).output,)), torch.tensor(x, dtype=torch.float64)
    return gradients(program, at)[0].item(), second_gradients(program, at)[0].item()


def torchs_derivatives(function: Callable[[Tensor], Tensor], x: float) -> tuple[float, float]:
    at = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(function(at), at, create_graph=True)
    (second,) = torch.autograd.grad(first, at, materialize_grads=True) if first.requires_grad else (torch.zeros(()),)
    return first.item(), second.item()


@pytest.mark.parametrize(
    ("text", "function", "x", "first", "second"), NAN_IN_TORCH, ids=[row[0] for row in NAN_IN_TORCH]
)
def test_a_branch_not_taken_gives_no_nan(
    text: str, function: Callable[[Tensor], Tensor], x: float, first: float, second: float
) -> None:
    assert math.isnan(torchs_derivatives(function, x)[0])
    assert both_derivatives(text, x) == (first, second)


@pytest.mark.parametrize(
    ("text", "function", "x", "first", "second"), NAN_IN_TORCHS_SECOND, ids=[row[0] for row in NAN_IN_TORCHS_SECOND]
)
def test_a_branch_not_taken_gives_no_nan_to_the_second_derivative(
    text: str, function: Callable[[Tensor], Tensor], x: float, first: float, second: float
) -> None:
    assert torchs_derivatives(function, x)[0] == first and math.isnan(torchs_derivatives(function, x)[1])
    assert both_derivatives(text, x) == (first, second)


def test_a_nan_of_the_branch_that_is_taken_stays() -> None:
    for text, x in (("where(x > 0, 1, sqrt(x))", -1.0), ("max(sqrt(x), 1)", -1.0), ("sqrt(x) * 0", 0.0)):
        assert math.isnan(both_derivatives(text, x)[0])


def test_a_value_that_is_masked_away_has_gradient_zero() -> None:
    x, mask = number("x"), condition("mask")
    program = Program(("x", "mask"), (where(mask, call("log", x), constant(0.0)) * x,), frozenset({"mask"}))
    back = program.vjp([True, False], [False])
    at, masks = torch.tensor([0.0, -1.0, 2.0, 2.0]), torch.tensor([False, False, False, True])
    (first,) = numbers(back, at, masks, 1.0)
    torch.testing.assert_close(first, torch.tensor([0.0, 0.0, 0.0, 1 + math.log(2)]))
    (again,) = numbers(back.vjp([True, False, False], [False]), at, masks, 1.0, 1.0)
    torch.testing.assert_close(again, torch.tensor([0.0, 0.0, 0.0, 0.5]))


def test_an_infinite_cotangent_does_not_reach_through_a_branch_not_taken() -> None:
    program = Program(("x",), (read("where(x > 0, x, 0)").output,))
    (result,) = numbers(program.vjp([True], [False]), torch.tensor([1.0, -1.0]), torch.full((2,), math.inf))
    assert result.tolist() == [math.inf, 0.0]


def test_a_sum_of_two_branches_that_are_not_taken_is_not_multiplied_by_infinity() -> None:
    text = "where(x > 1, y, 0) + where(x > 2, y, 0)"  # y = sqrt(x)
    assert both_derivatives(text.replace("y", "sqrt(x)"), 0.0) == (0.0, 0.0)


def test_a_slope_that_can_never_count_is_left_out() -> None:
    f = read("where(x > 0, where(x > 0, x, sqrt(x)), x)").output
    (output,) = Program(("x",), (f,)).vjp([True], [False]).outputs
    assert output.operation == "input"


def faults(program: Program, point: list[float]) -> list[str] | None:
    """Gradients that are not those of torch where only the branches taken are computed; None, if these overflow."""
    names = dict(zip(program.inputs, point, strict=True))
    lazy = Lazily(program.outputs[0], names)
    right = lazy.gradients()
    if not lazy.is_finite:
        return None
    ours = gradients(program, *[torch.tensor(value, dtype=torch.float64) for value in point])
    return [
        f"the derivative by {name} at {names} is {mine.item()}, not {right[name]}"
        for name, mine in zip(names, ours, strict=True)
        if not math.isclose(mine.item(), right[name], rel_tol=1e-9, abs_tol=1e-9 * lazy.largest)
    ]


RANDOM = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
POINTS = st.tuples(values(), values(), values())


@RANDOM
@given(formulas(), POINTS)
def test_gradients_of_random_formulas_are_those_of_the_branches_taken(formula: Drawn, at: tuple[float, ...]) -> None:
    found = faults(formula.program, list(at[: len(formula.inputs)]))
    assume(found is not None)
    assert not found


@RANDOM
@given(formulas(max_depth=3), POINTS)
def test_gradients_of_gradients_are_those_of_the_branches_taken(formula: Drawn, at: tuple[float, ...]) -> None:
    names = formula.inputs
    back = formula.program.vjp([True] * len(names), [False])
    found = [faults(Program(back.inputs, (output,)), [*at[: len(names)], 1.5]) for output in back.outputs]
    assume(found != [None] * len(names))
    assert not any(found)


@pytest.mark.parametrize("operation", ["where", "maximum", "clamp"])
def test_masking_by_multiplication_is_found(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What autograd does: a zero cotangent goes on into the branch that is not taken."""

    def masked(rule: Callable) -> Callable:
        def wild(y):
            partial = rule(y)
            return Partial(times=where(partial.guard, partial.times, constant(0.0)))

        return wild

    monkeypatch.setitem(RULES, operation, tuple(rule and masked(rule) for rule in RULES[operation]))
    text = {"where": "where(x > 0, sqrt(x), 0)", "maximum": "max(sqrt(x), 1)", "clamp": "clamp(1/x, -3, 3)"}[operation]
    assert faults(Program(("x",), (read(text).output,)), [0.0])
