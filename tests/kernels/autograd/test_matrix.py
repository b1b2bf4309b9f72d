"""Every transform of every kind of call is right against plain torch in float64, or raises."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

_SPEC = importlib.util.spec_from_file_location("kernels_matrix", Path(__file__).with_name("matrix.py"))
assert _SPEC is not None and _SPEC.loader is not None
matrix = sys.modules["kernels_matrix"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(matrix)

# torch's own decompositions still script, when forward mode is first used; so does its tracing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
    # Dynamo makes one of each Function that it traces.
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

COMPILED = [cell for cell in matrix.CELLS if cell.startswith("torch.compile")]
VALUES_ONLY = {"no_grad, inference_mode", "vmap", "vmap, other axes", "vmap of vmap", "torch.export", "torch.jit.trace"}
ON_KERNELS = ["backward", "strided", "double backward", "vmap of grad", "jvp", "jacfwd of jacfwd", "torch.jit.trace"]


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("cell", [cell for cell in matrix.CELLS if cell not in COMPILED])
def test_a_cell_is_right_in_every_row(cell: str) -> None:
    assert {row: matrix.verdict(row, cell) for row in matrix.ROWS} == dict.fromkeys(matrix.ROWS, "right")


@pytest.mark.parametrize("cell", COMPILED)
def test_a_compiled_cell_is_right(cell: str) -> None:
    rows = ["none", "weight and mask over dim"]
    assert {row: matrix.verdict(row, cell) for row in rows} == dict.fromkeys(rows, "right")


@pytest.mark.parametrize("cell", ON_KERNELS)
def test_a_cell_is_right_on_the_kernels_of_this_machine(cell: str) -> None:
    rows = ["sum, keepdim", "mask"]
    assert {row: matrix.verdict(row, cell) for row in rows} == dict.fromkeys(rows, "right")


def test_a_wrong_value_is_called_wrong_in_every_cell() -> None:
    wrong = matrix.reference("none")
    cells = [cell for cell in matrix.CELLS if cell not in COMPILED]
    told = {cell: matrix.verdict("none", cell, lambda e, q: 1.0001 * wrong(e, q)) for cell in cells}
    assert told == dict.fromkeys(cells, "wrong")


class _WrongSlope(torch.autograd.Function):
    """x, with a slope of 1.0001."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, cotangent):
        return 1.0001 * cotangent

    @staticmethod
    def jvp(ctx, tangent):
        return 1.0001 * tangent


def test_a_wrong_slope_is_called_wrong_in_every_cell_that_has_one() -> None:
    right = matrix.reference("none")
    cells = [cell for cell in matrix.CELLS if cell not in VALUES_ONLY and cell not in COMPILED]
    told = {cell: matrix.verdict("none", cell, lambda e, q: _WrongSlope.apply(right(e, q))) for cell in cells}
    forgotten = {cell for cell, verdict in told.items() if verdict == "right"}
    assert not forgotten
