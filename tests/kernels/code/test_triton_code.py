"""The text of a Triton kernel: Python, closed, ours. Where Triton is installed, compiled for a device not here."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import math
import os
import struct

import pytest

from gradwright.kernels.code.triton_code import Kernel, Walk, triton_source
from gradwright.kernels.formula.expression import Expression, call, condition, constant, number, where
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program

x, y, m = number("x"), number("y"), condition("m")
CAN_COMPILE = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") != "1"


def of_all_operations() -> Program:
    """Each operation once, of numbers, masks and constants."""
    outputs: list[Expression] = []
    for operation, count in ARITY.items():
        if operation == "given":
            outputs.append(call("given", x, y, x))
        elif operation == "where":
            outputs.append(where(m, x, constant(-0.0)))
        elif operation in ("and", "or", "not"):
            outputs.append(where(call(operation, *[m, call("lt", x, y)][:count]), x, y))
        elif operation in ("lt", "le", "gt", "ge", "eq", "ne"):
            outputs.append(where(call(operation, x, y), constant(1.0), constant(math.nan)))
        else:
            outputs.append(call(operation, *[x, y, constant(0.5)][:count]))
    return Program(("x", "y", "m"), tuple(outputs), frozenset({"m"}))


def kernels() -> list[object]:
    program = of_all_operations()
    many = len(program.outputs)
    written = (Walk("f32"),) * many
    summed = tuple(None if place % 2 else Walk("bf16", ("any", "one")) for place in range(many))
    plain = (Walk("f32"), Walk("f32"), Walk("bool"))
    mixed = (Walk("f16", ("any", "one")), Walk("real", ()), Walk("bool", ("still", "any")))
    return [
        pytest.param(Kernel(program, "f32", plain, written), id="one axis"),
        pytest.param(Kernel(program, "f64", mixed, summed, axes=2), id="two axes, float64"),
        pytest.param(Kernel(program, "f32", mixed, summed, axes=2, is_wide=True), id="two axes, 64 bits"),
    ]


@pytest.mark.parametrize("kernel", kernels())
def test_the_text_is_python_whose_names_are_closed(kernel: Kernel) -> None:
    tree = ast.parse(kernel.source())
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [argument.arg for argument in function.args.args] == [*kernel.parameters(), "BLOCK"]
    known = {"tl", "triton", "libdevice", *kernel.parameters(), "BLOCK"}
    for line in function.body:
        used = {node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert used <= known, used - known
        if isinstance(line, ast.Assign):
            known |= {target.id for target in line.targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("kernel", kernels())
def test_nothing_is_called_but_triton(kernel: Kernel) -> None:
    for node in ast.walk(ast.parse(kernel.source())):
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Attribute)
            assert ast.unparse(node.func).startswith(("tl.", "libdevice.")) or node.func.attr == "to"
        if isinstance(node, ast.Name):
            assert not hasattr(builtins, node.id)


def test_no_text_of_the_users_gets_in() -> None:
    evil = "import os; os.abort() #"
    source = triton_source(Program((evil, "tl", "libdevice"), (number(evil) * number("tl") + number("libdevice"),)))
    assert evil not in source
    assert "(x0, x1, x2, r0, elements, BLOCK: tl.constexpr)" in source


def test_sums_are_written_side_by_side_and_never_added_atomically() -> None:
    source = Kernel(Program(("x",), (x,)), "f32", (Walk("f32"),), (None,)).source()
    assert "tl.store(r0 + tl.program_id(0), r0_sum.to(tl.float64))" in source
    assert "atomic" not in source


def test_what_no_formula_names_is_not_handed_over() -> None:
    kernel = Kernel(Program(("x", "y"), (y,)), "f32", (Walk("f32"), Walk("f32")), (Walk("f32"),))
    assert kernel.parameters() == ("x1", "r0", "elements")


def test_an_expression_that_stands_twice_is_computed_once() -> None:
    shared = call("exp", x)
    assert triton_source(Program(("x",), (shared * shared, shared + x))).count("libdevice.exp") == 1


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 1e300, -1e300], ids=str)
def test_constants_that_no_literal_can_say_are_bits(value: float) -> None:
    (line,) = [line for line in triton_source(Program(("x",), (constant(value),))).splitlines() if "t0 =" in line]
    bits = int(line.split("tl.full((), ")[1].split(",")[0])
    (said,) = struct.unpack("<f", struct.pack("<i", bits))
    assert math.copysign(1, said) == math.copysign(1, value)
    assert said == (value if abs(value) != 1e300 else math.copysign(math.inf, value))


TYPES = {"f32": "*fp32", "f64": "*fp64", "f16": "*fp16", "bf16": "*bf16", "bool": "*u1"}


@pytest.mark.skipif(not CAN_COMPILE, reason="no Triton, or TRITON_INTERPRET is set")
@pytest.mark.parametrize("kernel", kernels())
def test_triton_compiles_it_for_a_device_that_need_not_be_here(kernel: Kernel) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    from gradwright.kernels.machine.triton_functions import triton_function

    signature = dict.fromkeys(kernel.parameters(), "i32")
    for place in kernel.used:
        kind = kernel.reads[place].kind
        signature[f"x{place}"] = f"fp{kernel.precision[1:]}" if kind == "real" else TYPES[kind]
    for place, walk in enumerate(kernel.writes):
        signature[f"r{place}"] = "*fp64" if walk is None else TYPES[walk.kind]
    made = triton.compile(
        triton.compiler.ASTSource(
            triton_function(kernel.source()), {**signature, "BLOCK": "constexpr"}, {"BLOCK": 1024}
        ),
        target=GPUTarget("cuda", 90, 32),
        options={"enable_fp_fusion": False},
    )
    assert made.asm["cubin"]
    assert "div.full" not in made.asm["ptx"]  # the hardware's approximate quotient
