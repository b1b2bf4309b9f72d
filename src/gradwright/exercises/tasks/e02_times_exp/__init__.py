"""How ``TimesExp`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.demands.saved import NOTHING_ON_CTX
from gradwright.exercises.grading.demands.second_derivative import SECOND_DERIVATIVE
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import autograd_function


def _reference(x: Tensor) -> Tensor:
    return x * torch.exp(-x)


def _cases(draws: Draws) -> list[Case]:
    return [
        case("3 rows of 4", draws.normal(3, 4)),
        case("a single number", draws.normal()),
        case("an empty batch", draws.normal(0, 4)),
        case("a transposed tensor", draws.normal(5, 3), view=Tensor.t),
        case("single precision", draws.normal(7, scale=3), dtype=torch.float32),
    ]


def _check(function: object, draws: Draws) -> CheckReport:
    return check(function, draws.normal(3, 4))


GRADING = Grading(
    name="TimesExp",
    arguments=("x",),
    kind=autograd_function,
    reference=_reference,
    cases=_cases,
    large=lambda draws: case("20,000 numbers", draws.normal(20_000), dtype=torch.float32),
    builtin=_reference,
    check=_check,
    forbidden=("torch.autograd.grad", "torch.autograd.backward"),
    demands=(
        no_loop(lambda draws, n: case(f"{n} numbers", draws.normal(n)), "numbers"),
        NOTHING_ON_CTX,
        SECOND_DERIVATIVE,
    ),
)
