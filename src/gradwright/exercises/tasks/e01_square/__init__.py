"""How ``square`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.second_derivative import SECOND_DERIVATIVE
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import custom_gradient


def _cases(draws: Draws) -> list[Case]:
    return [
        case("3 rows of 4", draws.normal(3, 4)),
        case("a single number", draws.normal()),
        case("an empty batch", draws.normal(0, 4)),
        case("a transposed tensor", draws.normal(5, 3), view=Tensor.t),
        case("large values in single precision", draws.normal(6, scale=1e6), dtype=torch.float32),
    ]


def _check(square: object, draws: Draws) -> CheckReport:
    return check(square, draws.normal(3, 4))


GRADING = Grading(
    name="square",
    arguments=("x",),
    kind=custom_gradient,
    reference=lambda x: x**2,
    cases=_cases,
    large=lambda draws: case("20,000 numbers", draws.normal(20_000), dtype=torch.float32),
    builtin=torch.square,
    check=_check,
    forbidden=("torch.autograd.grad", "torch.autograd.backward"),
    demands=(no_loop(lambda draws, n: case(f"{n} numbers", draws.normal(n)), "numbers"), SECOND_DERIVATIVE),
)
