"""How ``leaky_scale`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case


def _reference(x: Tensor, scale: Tensor) -> Tensor:
    return x.clamp(min=0) * scale + x.clamp(max=0) / 10


def _sized(draws: Draws, rows: int) -> Case:
    return case(f"{rows} rows", draws.normal(rows, 3), draws.normal(3), dtype=torch.float32)


def _wide(draws: Draws, columns: int) -> Case:
    return case(f"{columns} columns", draws.normal(2, columns), draws.normal(columns), dtype=torch.float32)


def _cases(draws: Draws) -> list[Case]:
    return [
        case("4 rows of 3", draws.normal(4, 3), draws.normal(3)),
        case("one row", draws.normal(1, 5), draws.normal(5)),
        case("no rows", draws.normal(0, 3), draws.normal(3)),
        case("square, so that axes can be mistaken", draws.normal(3, 3), draws.normal(3)),
        case("single precision", draws.normal(3, 4, scale=100), draws.normal(4), dtype=torch.float32),
    ]


def _check(leaky_scale: object, draws: Draws) -> CheckReport:
    return check(leaky_scale, draws.normal(2, 3), draws.normal(3), level="quick")


GRADING = Grading(
    name="leaky_scale",
    arguments=("x", "scale"),
    reference=_reference,
    cases=_cases,
    large=lambda draws: case("200 rows", draws.normal(200, 100), draws.normal(100), dtype=torch.float32),
    check=_check,
    demands=(no_loop(_sized, "rows"), no_loop(_wide, "columns")),
)
