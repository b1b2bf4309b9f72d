"""Programs as plain torch code."""

import ast
import linecache
import math
import re
import traceback

import pytest
import torch
from tests.laws import Laws

from gradwright.errors import UsageError
from gradwright.kernels.code.torch_code import literal, torch_function, torch_source
from gradwright.kernels.formula.expression import Expression, and_, call, condition, constant, not_, number, or_, where
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import RULES

X, Y = number("x"), number("y")
MASK = condition("mask")
CONDITIONS = {name: call(name, X, Y) for name in ("lt", "le", "gt", "ge", "eq", "ne")} | {
    "and": and_(call("lt", X, Y), MASK),
    "or": or_(call("lt", X, Y), MASK),
    "not": not_(MASK),
}


def example(operation: str) -> Expression:
    if operation in CONDITIONS:
        return where(CONDITIONS[operation], X, Y)
    if operation == "where":
        return where(MASK, X, Y)
    if operation == "given":
        return call("given", X, X, Y)
    return call(operation, *[X, Y, constant(2.0)][: ARITY[operation]])


def program_of(*outputs: Expression) -> Program:
    return Program(("x", "y", "mask"), outputs, frozenset({"mask"}))


laws = Laws[str]()


@pytest.mark.parametrize("operation", ARITY)
def test_of_every_operation_every_law_holds(operation: str) -> None:
    laws.hold(operation)


@laws
def it_has_torch_code_of_the_operands_dtype(operation: str) -> None:
    for dtype in (torch.float32, torch.float64):
        x, y = torch.tensor([0.25, 0.75], dtype=dtype), torch.tensor([0.5, 0.5], dtype=dtype)
        (result,) = torch_function(program_of(example(operation)))(x, y, torch.tensor([True, False]))
        assert result.dtype is dtype and result.shape == (2,) and result.isfinite().all(), dtype


@laws
def it_takes_python_numbers_alone(operation: str) -> None:
    program = program_of(example(operation))
    (result,) = torch_function(program)(0.25, 0.5, torch.tensor(True))
    (truth,) = torch_function(program)(torch.tensor(0.25), torch.tensor(0.5), torch.tensor(True))
    assert result.dtype is torch.get_default_dtype() and torch.equal(result, truth)


@laws.where(lambda operation: operation in RULES and operation not in (*CONDITIONS, "where"))
def it_takes_constants_alone(operation: str) -> None:
    constants = [constant(value) for value in (0.25, 0.5, 2.0)][: ARITY[operation]]
    x = torch.ones(3, dtype=torch.float64)
    result, _ = torch_function(Program(("x",), (call(operation, *constants), X)))(x)
    assert result.dtype is torch.float64 and result.shape == () and result.isfinite()


def test_two_numbers_chosen_by_a_mask_have_the_dtype_of_the_others() -> None:
    program = program_of(where(MASK, constant(1.0), constant(0.0)) * X)
    (result,) = torch_function(program)(torch.ones(2, dtype=torch.float64), 1.0, torch.tensor([True, False]))
    assert result.dtype is torch.float64 and result.tolist() == [1.0, 0.0]


def test_a_result_that_is_a_constant_is_a_tensor() -> None:
    result, given = torch_function(program_of(constant(0.5), call("given", constant(2.0), X, Y)))(
        torch.ones(2, dtype=torch.float64), 1.0, torch.tensor(True)
    )
    assert (result.item(), given.item()) == (0.5, 2.0) and result.dtype is given.dtype is torch.float64


def test_a_python_number_beyond_the_dtype_is_infinite() -> None:
    (result,) = torch_function(Program(("x", "y"), (call("lt", X, Y),)))(torch.ones(1), 1e300)
    assert result.item()
    (result,) = torch_function(Program(("x", "y"), (call("minimum", X * 0.0 - Y, X),)))(torch.ones(1), 1e300)
    assert result.item() == -math.inf


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, -2.5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan])
def test_a_literal_reads_back_to_the_bit(value: float) -> None:
    allowed = {"torch": torch}
    read = eval(f"{literal(value)}", allowed)
    assert math.copysign(1, read) == math.copysign(1, value) and (
        read == value or (math.isnan(read) and math.isnan(value))
    )
    assert eval(f"3.0 - {literal(value)}", allowed) is not None  # also behind an operator


def test_no_text_of_the_users_is_in_the_source() -> None:
    wild = number("__import__('os')")
    source = torch_source(Program(("__import__('os')", "lambda"), (call("exp", wild) + number("lambda"),)))
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert names <= {"torch", "value", "like", "x", "isinstance", "next", "as_tensor", "x0", "x1", "t0", "t1"}
    assert "os" not in source.replace("float", "").split()


def test_what_is_needed_twice_is_computed_once() -> None:
    program = Program(("x",), (call("exp", X) * X, call("exp", X) + X))
    assert len(re.findall(r"torch\.exp\(", torch_source(program))) == 1


def test_slopes_of_a_given_derivative_are_no_part_of_the_value() -> None:
    assert "cosh" not in torch_source(Program(("x",), (call("given", call("sinh", X), X, call("cosh", X)),)))


def test_the_source_stands_for_itself() -> None:
    names: dict[str, object] = {}
    exec(compile(torch_source(Program(("x",), (call("exp", X),)), "swish"), "swish.py", "exec"), names)
    function = names["swish"]
    assert callable(function) and function(0.0)[0].item() == 1.0


@pytest.mark.parametrize("name", ["a b", "def", ""])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't be called"):
        torch_source(Program(("x",), (X,)), name)


def test_the_function_of_a_program_is_made_once() -> None:
    assert torch_function(Program(("x",), (call("exp", X),))) is torch_function(Program(("x",), (call("exp", X),)))
    assert torch_function(Program(("x",), (call("exp", X),))) is not torch_function(Program(("x",), (X,)))


def test_a_traceback_shows_the_generated_line() -> None:
    for _ in range(2):
        function = torch_function(Program(("x", "y"), (X * Y,)))
        with pytest.raises(RuntimeError) as raised:
            function(torch.ones(2), torch.ones(3))
        assert "t0 = x0 * x1" in "".join(traceback.format_tb(raised.value.__traceback__))
        linecache.clearcache()  # as doctest does


def test_torch_compile_traces_it_without_a_graph_break() -> None:
    wavy = call("softplus", X) + call("sigmoid", X) * call("tanh", X) + call("clamp", X, constant(0.0), Y)
    program = Program(("x", "y"), (where(call("gt", X, constant(0.0)), X * Y, (Y - 1.0) * X) + wavy,))
    function = torch_function(program.and_vjp([True, True], [False]))
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    x = torch.linspace(-1, 1, 5)
    for quantile in (0.9, 0.5, torch.tensor(0.25)):
        for result, truth in zip(compiled(x, quantile, 1.0), function(x, quantile, 1.0), strict=True):
            assert torch.equal(result, truth)


def test_vmap_maps_it() -> None:
    function = torch_function(Program(("x", "y"), (call("softplus", X) * call("minimum", Y, constant(0.5)), Y)))
    x = torch.linspace(-1, 1, 6).view(3, 2)
    results = torch.vmap(function, in_dims=(0, None))(x, 0.75)
    assert [tuple(result.shape) for result in results] == [(3, 2), (3,)]
    assert torch.equal(results[0], function(x, 0.75)[0])
