"""The text of row programs as Triton kernels, and that Triton's compiler takes it."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from tests.kernels.launch.test_rows import EVERYTHING

from gradwright.kernels.code.triton_rows import RowKernel, RowWalk
from gradwright.kernels.formula.stages import RowProgram, row_program
from gradwright.losses.classification.cross_entropy import OF_CLASSES
from gradwright.losses.segmentation.confusion import arguments_of

CAN_COMPILE = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") != "1"
SOFTMAX = row_program({"z": "element"}, {"m": "max: z", "s": "sum: exp(z - m)"}, [("element", "exp(z - m) / s")])
TYPES = {"f32": "*fp32", "f64": "*fp64", "bf16": "*bf16", "i64": "*i64", "bool": "*i1"}


def kernel_of(program: RowProgram, precision: str = "f32", kind: str = "f32", is_long: bool = False) -> RowKernel:
    kinds = {"y": "i64", "mask": "bool"}
    steps = {"element": ("any", "any", "one"), "row": ("any", "one"), "class": ("one",)}
    reads = [
        RowWalk(axes, "real") if axes == "number" else RowWalk(axes, kinds.get(name, kind), steps[axes])
        for name, axes in program.inputs
    ]
    writes = [
        RowWalk(one.way, kind, steps[one.way]) if one.way in ("element", "row") else RowWalk(one.way, "f64")
        for one in program.results
    ]
    return RowKernel(program, precision, tuple(reads), tuple(writes), is_long)


def of_dice() -> list[RowProgram]:
    x = torch.zeros(2, 3, 4)
    kernels = arguments_of("here", x, torch.zeros(2, 4, dtype=torch.long), "multiclass", True, None, None).kernels()
    return [kernels.sums, kernels.gradients]


PROGRAMS = {
    "everything": EVERYTHING,
    "cross entropy": OF_CLASSES[True, True].program("total", (), True),
    "cross entropy, back": OF_CLASSES[True, True].program("rows back", ("z",), True),
    **dict(zip(("dice, sums", "dice, gradients"), of_dice(), strict=True)),
}


def test_what_fits_into_a_tile_is_read_once() -> None:
    text = kernel_of(SOFTMAX).source()
    assert text.count("tl.load") == text.count("tl.store") == text.count("libdevice.exp") == 1
    assert "for " not in text


def test_a_longer_row_is_read_in_each_pass() -> None:
    text = kernel_of(SOFTMAX, is_long=True).source()
    assert text.count("tl.load") == text.count("for start in") == 3


def test_a_tensor_that_no_formula_names_is_not_handed_over() -> None:
    program = row_program({"z": "element", "unused": "row", "y": "row"}, {"zy": "at y: z"}, [("row", "zy")])
    assert kernel_of(program).used == (0, 2)
    assert kernel_of(program).parameters()[:3] == ("x0", "x2", "r0")


def test_names_of_the_users_never_reach_the_text() -> None:
    program = row_program({"import_os": "element"}, {"exec_": "sum: import_os"}, [("row", "exec_")])
    assert "import_os" not in kernel_of(program).source()


@pytest.mark.skipif(not CAN_COMPILE, reason="no Triton, or TRITON_INTERPRET is set")
@pytest.mark.parametrize("is_long", [False, True], ids=["a tile", "long"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_triton_compiles_it_for_a_device_that_need_not_be_here(name: str, precision: str, is_long: bool) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    from gradwright.kernels.machine.triton_functions import triton_function

    kernel = kernel_of(PROGRAMS[name], precision, "bf16" if precision == "f32" else "f64", is_long)
    signature = dict.fromkeys(kernel.parameters(), "i32")
    for place in kernel.used:
        kind = kernel.reads[place].kind
        signature[f"x{place}"] = f"fp{precision[1:]}" if kind == "real" else TYPES[kind]
    for place, walk in enumerate(kernel.writes):
        signature[f"r{place}"] = TYPES[walk.kind]
    made = triton.compile(
        triton.compiler.ASTSource(
            triton_function(kernel.source()),
            {**signature, "ROWS": "constexpr", "WIDTH": "constexpr"},
            {"ROWS": 16, "WIDTH": 128},
        ),
        target=GPUTarget("cuda", 90, 32),
        options={"enable_fp_fusion": False},
    )
    assert made.asm["cubin"]
    assert "div.full" not in made.asm["ptx"]  # the hardware's approximate quotient
