"""The one list of operations, and all that has to know each of them."""

import pytest
from tests.laws import Laws

from gradwright.kernels.code.cpu_code import body
from gradwright.kernels.code.torch_code import torch_source
from gradwright.kernels.code.triton_code import triton_source
from gradwright.kernels.formula.expression import Expression, call, condition, constant, number, where
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import RULES, rules_of
from gradwright.kernels.formula.spelling import spelled

X, Y, Z, MASK = number("x"), number("y"), number("z"), condition("m")
CONNECTIVES = ("and", "or", "not")
NAMES = {"x": "x0", "y": "x1", "z": "x2", "m": "x3"}


def formula_with(operation: str) -> Expression:
    if operation in CONNECTIVES:
        return where(call(operation, *[MASK, call("lt", X, Y)][: ARITY[operation]]), X, Y)
    if operation == "given":
        return call("given", call("exp", X), X, Y)
    node = call(operation, *[X, Y, Z][: ARITY[operation]]) if operation != "where" else where(MASK, X, Y)
    return node if node.kind == "number" else where(node, X, Y)


laws = Laws[str]()


@pytest.mark.parametrize("operation", ARITY)
def test_of_every_operation_every_law_holds(operation: str) -> None:
    laws.hold(operation)


@laws
def it_is_differentiated_spelled_and_computed_everywhere(operation: str) -> None:
    output = formula_with(operation)
    program = Program(("x", "y", "z", "m"), (output,), frozenset({"m"}))
    for each in (program, program.and_vjp([True, True, True, False], [False])):
        names = {name: NAMES.get(name, "x4") for name in each.inputs}
        assert torch_source(each) and triton_source(each)
        assert len(body(each, "f32", names).results) == len(body(each, "f64", names).results) == len(each.outputs)
        assert all(spelled(result) for result in each.outputs)


@laws
def it_has_a_rule_for_each_argument(operation: str) -> None:
    if operation == "given":
        assert [rule is not None for rule in rules_of(call("given", X, X, Y))] == [False, True, False]
    else:
        assert len(RULES[operation]) == ARITY[operation]


def test_there_are_no_rules_for_what_is_no_operation() -> None:
    assert set(RULES) <= set(ARITY)
    assert rules_of(X) == rules_of(constant(1.0)) == ()
