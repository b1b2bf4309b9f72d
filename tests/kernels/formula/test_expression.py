"""Expressions: every rewrite holds for every float, to the bit, and keys say what is the same."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from tests.kernels.formula.evaluated import numbers
from tests.kernels.strategies import SPECIALS

from gradwright.kernels.formula import expression as ex
from gradwright.kernels.formula.expression import Expression, call, condition, constant, in_order, number, where
from gradwright.kernels.formula.program import Program

X, Y = number("x"), number("y")
BUILDERS: dict[str, Callable[..., Expression]] = {"add": ex.add, "sub": ex.sub, "mul": ex.mul, "div": ex.div}
CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, math.inf, math.nan)
OPERANDS = [X, Y, call("neg", X), call("neg", Y), call("mul", X, Y), *[constant(value) for value in CONSTANTS]]


def bits(output: Expression) -> torch.Tensor:
    """Its values in float32 for all pairs of specials; every NaN alike."""
    grid = torch.tensor(list(itertools.product(SPECIALS, SPECIALS)), dtype=torch.float32)
    (value,) = numbers(Program(("x", "y"), (output,)), grid[:, 0].contiguous(), grid[:, 1].contiguous())
    return torch.where(value.isnan(), torch.nan, value).view(torch.int32)


def wrong_rewrites(operation: str, build: Callable[..., Expression]) -> list[str]:
    found = []
    for a, b in itertools.product(OPERANDS, OPERANDS):
        rewritten, written = build(a, b), Expression(operation, (a, b))
        if not torch.equal(bits(rewritten), bits(written)):
            found.append(f"{operation}({a.operation} {a.value}, {b.operation} {b.value}) is {rewritten.operation}")
    return found


@pytest.mark.parametrize("operation", BUILDERS)
def test_arithmetic_is_rewritten_to_the_bit(operation: str) -> None:
    assert not wrong_rewrites(operation, BUILDERS[operation])


TEMPTING: dict[str, tuple[str, Callable[[Expression, Expression], Expression]]] = {
    "x + 0 = x": ("add", lambda a, b: a if b.is_constant(0.0) else call("add", a, b)),
    "x * 0 = 0": ("mul", lambda a, b: b if b.is_constant(0.0) else call("mul", a, b)),
    "x - x = 0": ("sub", lambda a, b: constant(0.0) if a.key == b.key else call("sub", a, b)),
    "x / x = 1": ("div", lambda a, b: constant(1.0) if a.key == b.key else call("div", a, b)),
    "-x + y = -(x - y)": ("add", lambda a, b: -call("sub", a.arguments[0], b) if a.operation == "neg" else a + b),
    "x / c = x * (1 / c)": (
        "div",
        lambda a, b: a * (1 / b.value) if b.is_constant() and b.value else call("div", a, b),
    ),
}


@pytest.mark.parametrize("rewrite", TEMPTING)
def test_a_rewrite_that_is_not_exact_is_found(rewrite: str) -> None:
    operation, build = TEMPTING[rewrite]
    operands = [*OPERANDS, constant(3.0)]
    found = (
        not torch.equal(bits(build(a, b)), bits(Expression(operation, (a, b))))
        for a, b in itertools.product(operands, operands)
    )
    assert any(found)


def test_negation_is_rewritten_to_the_bit() -> None:
    for operand in OPERANDS:
        assert torch.equal(bits(ex.neg(operand)), bits(Expression("neg", (operand,))))


def test_choices_are_rewritten_to_the_bit() -> None:
    is_less, is_large = call("lt", X, Y), call("gt", X, constant(1.0))
    choices = [where(is_less, X, Y), where(ex.not_(is_less), X, Y), where(is_large, X, Y), where(is_large, Y, Y)]
    for choice in (is_less, is_large, ex.not_(is_less), call("gt", Y, X)):
        for a, b in itertools.product(choices, choices):
            assert torch.equal(bits(where(choice, a, b)), bits(Expression("where", (choice, a, b))))


def test_a_choice_within_the_same_choice_is_made_once() -> None:
    is_less = call("lt", X, Y)
    assert where(is_less, where(is_less, X, Y), where(is_less, X, Y)).arguments == (is_less, X, Y)


def test_connectives_of_the_same_conditions_are_that_condition() -> None:
    mask = condition("m")
    assert ex.and_(mask, mask) is mask and ex.or_(mask, mask) is mask and ex.not_(ex.not_(mask)) is mask


def test_constants_are_folded_in_float64() -> None:
    assert (constant(0.1) + 0.2).value == 0.1 + 0.2
    assert (1.0 / constant(3.0)).value == 1.0 / 3.0
    assert (constant(1.0) / 0.0).operation == "div"


def test_operators_take_numbers_on_either_side() -> None:
    for built, written in ((2.0 + X, "add"), (2.0 - X, "sub"), (2.0 * X, "mul"), (2.0 / X, "div")):
        assert built.operation == written and built.arguments[0].is_constant(2.0)


@pytest.mark.parametrize("operation", sorted(ex.COMMUTATIVE))
def test_what_may_be_exchanged_has_one_key(operation: str) -> None:
    assert call(operation, X, Y).key == call(operation, Y, X).key


@pytest.mark.parametrize("operation", ["sub", "div", "pow", "lt", "le", "gt", "ge"])
def test_what_may_not_be_exchanged_has_two_keys(operation: str) -> None:
    assert call(operation, X, Y).key != call(operation, Y, X).key


def test_a_comparison_and_its_mirror_image_have_one_key() -> None:
    assert call("gt", X, Y).key == call("lt", Y, X).key != call("ge", X, Y).key == call("le", Y, X).key


def test_keys_tell_zeros_names_and_masks_apart() -> None:
    different = [constant(0.0), constant(-0.0), constant(math.nan), X, Y, condition("x"), call("neg", X)]
    assert len({each.key for each in different}) == len(different)
    assert constant(math.nan).key == constant(-math.nan).key


def test_arguments_come_before_what_is_made_of_them_and_each_once() -> None:
    shared = call("exp", X)
    order = list(in_order([shared * Y + shared, call("exp", X)]))
    assert len({node.key for node in order}) == len(order) == 5
    places = {node.key: place for place, node in enumerate(order)}
    assert all(places[a.key] < places[node.key] for node in order for a in node.arguments)


def test_a_formula_of_ten_thousand_levels_is_walked() -> None:
    deep = X
    for _ in range(10_000):
        deep = call("sin", deep)
    assert sum(1 for _ in in_order([deep])) == 10_001


def test_slopes_are_no_part_of_a_value() -> None:
    assert [node.operation for node in in_order([call("given", call("sinh", X), X, call("cosh", X))])] == [
        "input",
        "sinh",
        "given",
    ]


def test_an_expression_is_a_number_or_a_condition() -> None:
    assert {each.kind for each in (X, X + Y, constant(1.0), where(condition("m"), X, Y))} == {"number"}
    assert {each.kind for each in (condition("m"), call("lt", X, Y), ex.not_(call("eq", X, Y)))} == {"condition"}
