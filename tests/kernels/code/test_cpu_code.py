"""What a formula becomes on a CPU, and that every node of it is computed as torch computes it.

Each node is judged by itself: a kernel writes out every node's value, and torch applies the node's operation, in
float64, to what the kernel found for its arguments. So no error of one operation is magnified by the next.
"""

import math
from collections.abc import Mapping
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from tests.kernels.one_loop import computed
from tests.kernels.strategies import SPECIALS, Drawn, formulas
from torch import Tensor

from gradwright.kernels.code.cpu_code import body
from gradwright.kernels.code.strength_reduction import reduced
from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.expression import (
    CONDITION,
    Expression,
    call,
    condition,
    constant,
    in_order,
    not_,
    number,
    where,
)
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program

X, Y, Z = number("x"), number("y"), number("z")
LIMITS = {torch.float32: 1e-6, torch.float64: 1e-13}
# The smallest that is judged; of float64, torch lets some results underflow early.
SMALLEST = {torch.float32: 2.0**-149, torch.float64: 1e-300}


def points(dtype: torch.dtype) -> dict[str, Tensor]:
    """Every special number beside every other one, and ordinary ones."""
    random = torch.Generator().manual_seed(0)
    special = torch.tensor(SPECIALS)
    columns = [
        special.repeat(len(special)),
        special.repeat_interleave(len(special)),
        special.repeat(len(special)).flip(0),
    ]
    return {
        name: torch.cat([column, 3 * torch.randn(500, generator=random)]).to(dtype)
        for name, column in zip("xyz", columns, strict=True)
    }


def value_of(node: Expression, known: Mapping[bytes, Tensor]) -> Tensor:
    """By torch in float64, of what is known of its arguments."""
    if node.key in known:
        return known[node.key].double()
    if node.operation == "given":
        return value_of(node.arguments[0], known)
    names = [f"a{k}" for k in range(len(node.arguments))]
    inputs = [
        condition(name) if argument.kind == CONDITION else number(name)
        for name, argument in zip(names, node.arguments, strict=True)
    ]
    masks = frozenset(i.name for i in inputs if i.kind == CONDITION)
    operands = [value_of(argument, known) for argument in node.arguments]
    operands = [o.bool() if name in masks else o for name, o in zip(names, operands, strict=True)]
    output = call(node.operation, *inputs)
    if node.kind == CONDITION:
        output = where(output, constant(1.0), constant(0.0))
    if node.operation == "pow" and node.arguments[1].is_constant():
        exponent = constant(float(operands[1][0]))  # as the kernel has rounded it
        output = call("pow", inputs[0], exponent)  # torch has its own way with square roots
    return torch_function(Program(tuple(names), (output,), masks))(*operands)[0]


def is_right(found: Tensor, truth: Tensor) -> bool:
    """To the limit of the dtype and one subnormal more (of two roundings), with infinities, NaN and signs of zero."""
    dtype = found.dtype
    rounded, wide = truth.to(dtype), found.double()
    same = (found == rounded) & (torch.signbit(found) == torch.signbit(rounded)) | (found.isnan() & rounded.isnan())
    near = (wide - truth).abs() <= LIMITS[dtype] * truth.abs() + 1.01 * SMALLEST[dtype]
    edge = (truth.abs() / torch.finfo(dtype).max - 1).abs() < LIMITS[dtype]  # of overflow
    return bool((same | (near & (truth != 0)) | edge).all())


def fused(node: Expression) -> list[bytes]:
    """The arguments of which the kernel makes no rounded value, but one operation together with the node."""
    is_fused = node.operation in ("tanh", "sech_square") and node.arguments[0].operation == "softplus"
    return [node.arguments[0].key] if is_fused else []


def judge(node: Expression, known: Mapping[bytes, Tensor]) -> None:
    """What the kernel found for a node, by what it found for the arguments."""
    others = {key: value for key, value in known.items() if key != node.key and key not in fused(node)}
    found, truth = known[node.key], value_of(node, others)
    if node.operation in ("minimum", "maximum", "clamp"):  # of 0.0 and -0.0, torch gives now this, now that
        found, truth = found + 0.0, truth + 0.0
    assert is_right(found, truth), f"{node.operation} is wrong"


def check(output: Expression, dtype: torch.dtype) -> None:
    """Every node of a formula of x, y and z; and that it gives the same to the bit when computed alone."""
    at = points(dtype)
    names = tuple("xyz")
    operands = [at[name] for name in names]
    every = list(in_order([output]))
    nodes = [node for node in every if node.arguments and node.kind != CONDITION and node.operation != "given"]
    known = {number(name).key: at[name] for name in names}
    known |= {node.key: torch.full_like(at["x"], node.value) for node in every if node.is_constant()}
    for start in range(0, len(nodes), 16):
        part = nodes[start : start + 16]
        results = computed(Program(names, tuple(part)), dtype)(*operands)
        known |= {node.key: result for node, result in zip(part, results, strict=True)}
    for node in nodes:
        judge(node, known)
    (alone,) = computed(Program(names, (output,)), dtype)(*operands)
    among = value_of(output, known)
    assert bool(((alone == among) | (alone.isnan() & among.isnan())).all())


def of_operation(name: str) -> Expression:
    a, b = call("gt", X, Y), call("le", Y, Z)
    if name in ("and", "or", "not"):
        return where(call(name, *(a, b)[: ARITY[name]]), X, Y)
    if name in ("lt", "le", "gt", "ge", "eq", "ne"):
        return where(call(name, X, Y), X, Z)
    if name == "where":
        return where(a, Y, Z)
    return call(name, *(X, Y, Z)[: ARITY[name]])


OPERATIONS = [name for name in ARITY if name != "given"]


@cache
def of_every_operation(dtype: torch.dtype) -> dict[bytes, Tensor]:
    """What kernels of 16 operations each find, and x, y and z."""
    at, outputs = points(dtype), [of_operation(name) for name in OPERATIONS]
    known = {number(name).key: at[name] for name in "xyz"}
    for start in range(0, len(outputs), 16):
        part = tuple(outputs[start : start + 16])
        results = computed(Program(("x", "y", "z"), part), dtype)(at["x"], at["y"], at["z"])
        known |= {output.key: result for output, result in zip(part, results, strict=True)}
    return known


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_computed_as_torch_computes_it(name: str) -> None:
    judge(of_operation(name), of_every_operation(torch.float32))
    judge(of_operation(name), of_every_operation(torch.float64))


@settings(max_examples=12, deadline=None)
@given(formulas(max_depth=3))
def test_every_node_of_a_random_formula_is_computed_as_torch_computes_it(formula: Drawn) -> None:
    check(formula.output, torch.float32)


@pytest.mark.parametrize(
    ("found", "truth"),
    [
        pytest.param([1.0, 1.0 + 2e-6], [1.0, 1.0], id="off-by-more-than-allowed"),
        pytest.param([1.0, 0.0], [1.0, -0.0], id="sign-of-zero"),
        pytest.param([1.0, 0.0], [1.0, 1e-40], id="subnormal-flushed"),
        pytest.param([1.0, math.nan], [1.0, 2.0], id="nan"),
        pytest.param([1.0, 2.0], [1.0, math.nan], id="nan-lost"),
        pytest.param([1.0, math.inf], [1.0, 3e38], id="early-overflow"),
    ],
)
def test_the_judge_rejects_a_planted_fault(found: list[float], truth: list[float]) -> None:
    right = torch.tensor(truth, dtype=torch.float64)
    assert is_right(right.float(), right)
    assert not is_right(torch.tensor(found), right)


def test_a_mask_chooses() -> None:
    program = Program(("x", "m"), (where(not_(condition("m")), X, -X),), frozenset({"m"}))
    (result,) = computed(program, torch.float32)(torch.tensor([1.0, 2.0]), torch.tensor([True, False]))
    assert result.tolist() == [-1.0, 2.0]


def test_a_common_subexpression_is_computed_once() -> None:
    exponential = call("exp", X)
    made = body(Program(("x",), (exponential * exponential, exponential + 1.0)), "f32", {"x": "x0"})
    assert [line for line in made.lines if "exp" in line] == ["t0 = exp(x0)"]


def test_what_does_not_vary_is_computed_before_the_loop() -> None:
    slope = call("exp", Y) * 2.0
    made = body(Program(("x", "y"), (X * slope,)), "f32", {"x": "x0", "y": "x1"}, ["y"])
    assert made.before == ["t0 = exp(x1)", "t1 = t0 * c0"]
    assert made.lines == ["t2 = x0 * t1"]
    (result,) = computed(Program(("x", "y"), (X * slope,)), torch.float32, ["y"])(
        torch.tensor([1.0, 2.0]), torch.zeros(1)
    )
    assert result.tolist() == [2.0, 4.0]


def test_an_output_that_is_an_input_or_a_constant_needs_no_line() -> None:
    made = body(Program(("x",), (X, constant(2.5))), "f32", {"x": "x0"})
    assert (made.lines, made.results, made.constants) == ([], ["x0", "c0"], {"c0": 2.5})


def test_a_constant_is_rounded_to_the_precision_of_the_kernel() -> None:
    def constants(precision: str) -> list[float]:
        outputs = tuple(X * value for value in (0.1, 1e300, 1e-60, -math.inf))
        return list(body(Program(("x",), outputs), precision, {"x": "x0"}).constants.values())  # type: ignore[arg-type]

    assert constants("f32") == [torch.tensor(0.1).item(), math.inf, 0.0, -math.inf]
    assert constants("f64") == [0.1, 1e300, 1e-60, -math.inf]


def test_no_float32_program_computes_in_float64() -> None:
    """As `2 * x` would, were the constant a plain number: the result would not be that of float32."""
    x = torch.tensor([1.0 + 2**-23])
    (result,) = computed(Program(("x",), ((X * (1 + 2**-20)) * (1 + 2**-20) - X,)), torch.float32)(x)
    factor = torch.tensor(1 + 2**-20)
    assert result.equal(x * factor * factor - x)


def test_user_given_slopes_leave_no_code() -> None:
    output = call("given", call("exp", X), X, call("sin", X))
    assert body(Program(("x",), (output,)), "f32", {"x": "x0"}).lines == ["t0 = exp(x0)"]


def operations(output: Expression) -> list[str]:
    return [node.operation for node in in_order(reduced([output])) if node.arguments]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(call("pow", X, constant(2.0)), ["mul"], id="square"),
        pytest.param(call("pow", X, constant(5.0)), ["mul", "mul", "mul"], id="fifth-power"),
        pytest.param(call("pow", X, constant(-2.0)), ["div", "mul"], id="inverse-square"),
        pytest.param(call("pow", X, constant(0.5)), ["sqrt"], id="square-root"),
        pytest.param(call("pow", X, constant(1.0)), [], id="first-power"),
        pytest.param(call("pow", X, constant(0.0)), [], id="zeroth-power"),
        pytest.param(call("pow", X, constant(9.0)), ["pow"], id="ninth-power-stays"),
        pytest.param(call("pow", X, constant(0.3)), ["pow"], id="another-power-stays"),
        pytest.param(X / 4.0, ["mul"], id="division-by-a-power-of-two"),
        pytest.param(X / 3.0, ["div"], id="another-division-stays"),
        pytest.param(X / 2.0**-149, ["div"], id="division-by-what-has-no-inverse-stays"),
        pytest.param(X / Y, ["div"], id="division-by-an-input-stays"),
        pytest.param(call("tanh", X * 0.5), ["tanh_of_half"], id="tanh-of-half"),
        pytest.param(call("tanh", X * 0.25), ["mul", "tanh"], id="another-tanh-stays"),
        pytest.param(call("tanh", call("softplus", X)), ["tanh_of_softplus"], id="tanh-of-softplus"),
        pytest.param(call("sech_square", call("softplus", X)), ["sech_square_of_softplus"], id="sech-of-softplus"),
        pytest.param(call("exp", -call("abs", X)), ["abs", "neg", "exp_below_zero"], id="exp-of-what-is-below-zero"),
        pytest.param(call("exp", X * X / -3.0), ["mul", "div", "exp_below_zero"], id="exp-of-a-negative-square"),
        pytest.param(call("exp", X * Y * -2.0), ["mul", "mul", "exp"], id="exp-of-a-product-stays"),
        pytest.param(
            call("log1p", call("exp", call("abs", X) * -2.0)),
            ["abs", "mul", "exp_below_zero", "log1p_up_to_one"],
            id="log1p-of-what-is-below-one",
        ),
        pytest.param(call("maximum", constant(0.0), X), ["lt", "where"], id="maximum-with-a-constant"),
        pytest.param(call("minimum", X, constant(math.nan)), ["minimum"], id="minimum-with-nan-stays"),
        pytest.param(call("clamp", X, constant(0.0), Y), ["clamp"], id="clamp-to-an-input-stays"),
    ],
)
def test_an_operation_becomes_a_cheaper_one(output: Expression, expected: list[str]) -> None:
    assert operations(output) == expected
    check(output, torch.float32)


def test_arithmetic_gives_the_bits_of_torch() -> None:
    at = points(torch.float32)
    program = Program(("x", "y", "z"), ((X * Y + Z) / (X - Y) - Z / 8.0,))
    x, y, z = at["x"], at["y"], at["z"]
    (result,) = computed(program, torch.float32)(x, y, z)
    truth = (x * y + z) / (x - y) - z / 8.0
    assert bool(((result == truth) | (result.isnan() & truth.isnan())).all())
