"""docs/reference/support_matrix.md is true: its torch columns run here, cell by cell, against what was recorded."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from corpora.support_matrix import matrix
from corpora.support_matrix.page import page
from corpora.support_matrix.record import load
from corpora.support_matrix.row import Row
from corpora.support_matrix.verdict import NOT_OFFERED, RAISES, RIGHT, WRONG, judge
from tests.laws import Laws

ROOT = Path(__file__).parents[3]
OURS = "gw.custom_gradient"
RECORDED = load()["cells"]
IS_RECORDED = load()["machine"]["torch"].split("+")[0] == torch.__version__.split("+")[0]

laws = Laws[Row]()


@pytest.mark.parametrize("row", matrix.rows(), ids=str)
def test_every_cell_of_a_row_is_what_the_page_says(row: Row) -> None:
    laws.hold(row)


def cell_of(column: str) -> Callable[[Row], None]:
    def is_what_the_page_says(row: Row) -> None:
        found, recorded = matrix.verdict(column, row), RECORDED[row.name][column]
        assert found.word == recorded["word"]
        assert found.told == recorded["told"] or not IS_RECORDED  # torch's words

    is_what_the_page_says.__name__ = column
    return is_what_the_page_says


for column in matrix.TORCH_COLUMNS if IS_RECORDED else [OURS]:  # what torch's own ways do, the page says of one torch
    laws(cell_of(column))


@laws
def ours_is_right_or_raises(row: Row) -> None:
    assert RECORDED[row.name][OURS]["word"] in (RIGHT, RAISES)


def test_every_cell_is_recorded() -> None:
    assert {(row, column) for row, cells in RECORDED.items() for column in cells} == {
        (row.name, column) for row in matrix.rows() for column in matrix.COLUMNS
    }


def test_the_page_is_made_from_the_record() -> None:
    assert (ROOT / "docs" / "reference" / "support_matrix.md").read_text() == page()


def test_no_cell_failed_by_a_mistake_in_its_own_program() -> None:
    told = [cell["told"] for cells in RECORDED.values() for cell in cells.values() if cell["word"] == RAISES]
    assert not [words for words in told if "support_matrix" in words or words.startswith(("NameError", "ImportError"))]


def _without_its_gradients() -> SimpleNamespace:
    """The planted fault: a column whose functions are the forwards alone, differentiated by autograd."""
    from corpora.support_matrix.columns import setup_context

    classes = {name: value for name, value in vars(setup_context).items() if hasattr(value, "forward")}
    plain = {name: value.__self__.forward for name, value in vars(setup_context).items() if hasattr(value, "__self__")}
    later = {f"define_{name.lower()}": (lambda value=value: value.forward) for name, value in classes.items()}
    return SimpleNamespace(**plain, **later)


IN_THE_VALUES = (
    *("backward", "frozen_input", "double_backward", "forward_mode", "per_sample", "func_grad", "func_jvp"),
    *("jacrev", "jacfwd", "hessian", "grad_of_grad", "compiled", "compiled_func_grad", "compiled_per_sample"),
    *("complex_numbers", "complex_forward_mode", "non_tensor", "view_in", "deep_copied", "threads", "freed"),
)


@pytest.mark.parametrize("name", IN_THE_VALUES)
def test_a_column_that_drops_its_backward_is_called_silently_wrong(name: str) -> None:
    row = next(row for row in matrix.rows() if row.name == name)
    column = _without_its_gradients()
    assert judge(lambda: row.program(column)).word == WRONG


def test_what_is_not_offered_says_why() -> None:
    unsaid = [cell for cells in RECORDED.values() for cell in cells.values() if cell["word"] == NOT_OFFERED]
    assert all(cell["told"] for cell in unsaid)
