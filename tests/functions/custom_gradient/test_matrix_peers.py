"""Peers' columns of docs/reference/support_matrix.md: jax.custom_vjp and HIPS autograd. Run by `make test-peers`."""

import pytest
from corpora.support_matrix import matrix
from corpora.support_matrix.record import load
from corpora.support_matrix.row import Row

pytestmark = pytest.mark.peers

RECORDED = load()["cells"]
CELLS = [
    pytest.param(column, row, id=f"{module}-{row.name}")
    for row in matrix.rows()
    for column, module in matrix.PEER_COLUMNS.items()
]


@pytest.mark.parametrize(("column", "row"), CELLS)
def test_a_peers_cell_is_what_the_page_says(column: str, row: Row) -> None:
    found = matrix.verdict(column, row)
    assert {"word": found.word, "told": found.told} == RECORDED[row.name][column]
