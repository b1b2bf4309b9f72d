"""Every transform of every kind of call is right against plain torch in float64, or raises."""

import pytest
import torch
from tests.kernels.autograd import matrix

# torch's own decompositions still script, when forward mode is first used; so does its tracing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

CELLS = [cell for cell in matrix.CELLS if not cell.startswith("torch.compile")]  # test_matrix_compiled.py
VALUES_ONLY = {"no_grad, inference_mode", "vmap", "vmap, other axes", "vmap of vmap", "torch.export", "torch.jit.trace"}


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_right_in_every_row(cell: str) -> None:
    assert {row: matrix.verdict(row, cell) for row in matrix.ROWS} == dict.fromkeys(matrix.ROWS, "right")


def test_a_wrong_value_is_called_wrong_in_every_cell() -> None:
    wrong = matrix.reference("none")
    told = {cell: matrix.verdict("none", cell, lambda e, q: 1.0001 * wrong(e, q)) for cell in CELLS}
    assert told == dict.fromkeys(CELLS, "wrong")


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
    cells = [cell for cell in CELLS if cell not in VALUES_ONLY]
    told = {cell: matrix.verdict("none", cell, lambda e, q: _WrongSlope.apply(right(e, q))) for cell in cells}
    forgotten = {cell for cell, verdict in told.items() if verdict == "right"}
    assert not forgotten
