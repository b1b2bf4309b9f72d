"""Peers' columns of docs/reference/support_matrix.md: jax.custom_vjp and HIPS autograd. Run by `make test-peers`."""

from collections.abc import Callable

import pytest
from corpora.support_matrix import matrix
from corpora.support_matrix.record import load
from corpora.support_matrix.row import Row
from tests.laws import Laws

pytestmark = pytest.mark.peers

RECORDED = load()["cells"]

laws = Laws[Row]()


@pytest.mark.parametrize("row", matrix.rows(), ids=str)
def test_every_peers_cell_of_a_row_is_what_the_page_says(row: Row) -> None:
    laws.hold(row)


def cell_of(column: str) -> Callable[[Row], None]:
    def is_what_the_page_says(row: Row) -> None:
        found = matrix.verdict(column, row)
        assert {"word": found.word, "told": found.told} == RECORDED[row.name][column]

    is_what_the_page_says.__name__ = column
    return is_what_the_page_says


for column in matrix.PEER_COLUMNS:
    laws(cell_of(column))
