"""How ``AddBias`` is graded."""

import torch

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.returned_shapes import RETURNED_SHAPES
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import autograd_function


def _cases(draws: Draws) -> list[Case]:
    return [
        case("a bias for each column", draws.normal(3, 4), draws.normal(4)),
        case("a bias for each row", draws.normal(3, 4), draws.normal(3, 1)),
        case("three axes, two of them ones", draws.normal(2, 3, 4), draws.normal(1, 3, 1)),
        case("three axes, one missing", draws.normal(2, 3, 4), draws.normal(3, 1)),
        case("one bias for all", draws.normal(3, 4), draws.normal()),
        case("a bias of the same shape", draws.normal(3, 4), draws.normal(3, 4)),
        case("an empty batch", draws.normal(0, 4), draws.normal(4)),
        case("one sample", draws.normal(1, 4), draws.normal(4)),
        case("single precision", draws.normal(5, 2), draws.normal(2), dtype=torch.float32),
    ]


def _check(function: object, draws: Draws) -> CheckReport:
    return check(function, draws.normal(3, 4), draws.normal(4))


def _sized(draws: Draws, rows: int) -> Case:
    return case(f"{rows} rows", draws.normal(rows, 3), draws.normal(3), dtype=torch.float32)


GRADING = Grading(
    name="AddBias",
    arguments=("x", "bias"),
    kind=autograd_function,
    reference=lambda x, bias: x + bias,
    cases=_cases,
    large=lambda draws: case("200 rows", draws.normal(200, 100), draws.normal(100), dtype=torch.float32),
    builtin=torch.add,
    check=_check,
    forbidden=("torch.autograd.grad", "torch.autograd.backward", "sum_to_size"),
    demands=(RETURNED_SHAPES, no_loop(_sized, "rows")),
)
