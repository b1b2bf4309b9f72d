"""Cells of the matrix that compile: with torch.compile, and on the kernels of this machine."""

import pytest
from tests.kernels.autograd import matrix

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    # Dynamo makes one of each Function that it traces.
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

COMPILED = [cell for cell in matrix.CELLS if cell.startswith("torch.compile")]
ON_KERNELS = ["backward", "strided", "double backward", "vmap of grad", "jvp", "jacfwd of jacfwd", "torch.jit.trace"]


@pytest.mark.parametrize("cell", COMPILED)
def test_a_compiled_cell_is_right(cell: str) -> None:
    rows = ["weight and mask over dim"]
    assert {row: matrix.verdict(row, cell) for row in rows} == dict.fromkeys(rows, "right")


@pytest.mark.parametrize("cell", ON_KERNELS)
def test_a_cell_is_right_on_the_kernels_of_this_machine(cell: str) -> None:
    rows = ["mask"]
    assert {row: matrix.verdict(row, cell) for row in rows} == dict.fromkeys(rows, "right")
