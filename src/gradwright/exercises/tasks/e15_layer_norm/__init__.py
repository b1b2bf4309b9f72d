"""How ``LayerNorm`` is graded."""

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.saved import saved_at_most
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import autograd_function


def _reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def _rows(draws: Draws, label: str, rows: int, columns: int, eps: float = 1e-5, single: bool = False) -> Case:
    dtype = torch.float32 if single else torch.float64
    return case(label, draws.normal(rows, columns), draws.normal(columns), draws.normal(columns), eps, dtype=dtype)


def _sized(draws: Draws, rows: int) -> Case:
    return _rows(draws, f"{rows} rows", rows, 3, single=True)


def _wide(draws: Draws) -> Case:
    return _rows(draws, "64 rows of 32", 64, 32, single=True)


def _bytes(wide: Case) -> int:
    """Twice x, some numbers for each row, and some for each column."""
    rows, columns = map(int, wide.args()[0].shape)
    return 4 * (2 * rows * columns + 3 * rows + 3 * columns)


def _cases(draws: Draws) -> list[Case]:
    return [
        _rows(draws, "4 rows of 3", 4, 3),
        _rows(draws, "eps = 0.5", 5, 4, 0.5),
        _rows(draws, "one row", 1, 6),
        _rows(draws, "no rows", 0, 3),
        _rows(draws, "square, so that axes can be mistaken", 4, 4),
        _rows(draws, "single precision", 6, 8, single=True),
    ]


def _check(function: object, draws: Draws) -> CheckReport:
    return check(function, draws.normal(3, 4), draws.normal(4), draws.normal(4), 1e-5)


GRADING = Grading(
    name="LayerNorm",
    arguments=("x", "weight", "bias", "eps"),
    kind=autograd_function,
    reference=_reference,
    cases=_cases,
    large=lambda draws: _rows(draws, "256 rows of 128", 256, 128, single=True),
    builtin=_reference,
    check=_check,
    forbidden=(
        "layer_norm", "native_layer_norm", "native_layer_norm_backward", "batch_norm", "native_batch_norm",
        "group_norm", "native_group_norm", "instance_norm", "torch.autograd.grad", "torch.autograd.backward",
    ),
    demands=(no_loop(_sized, "rows"), saved_at_most(_wide, _bytes, "n, and r for each row")),
)  # fmt: skip
