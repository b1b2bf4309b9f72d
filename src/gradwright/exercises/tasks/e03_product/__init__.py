"""How ``Product`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.needed_only import NEEDED_ONLY
from gradwright.exercises.grading.demands.saved import NOTHING_ON_CTX
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case
from gradwright.exercises.grading.kinds import autograd_function


def _cases(draws: Draws) -> list[Case]:
    return [
        case("3 rows of 4", draws.normal(3, 4), draws.normal(3, 4)),
        case("a single number", draws.normal(), draws.normal()),
        case("an empty batch", draws.normal(0, 4), draws.normal(0, 4)),
        case("transposed tensors", draws.normal(5, 3), draws.normal(5, 3), view=Tensor.t),
        case("a second factor that is data", draws.normal(4), draws.normal(4, grad=False)),
        case("a first factor that is data", draws.normal(4, grad=False), draws.normal(4)),
        case("single precision", draws.normal(7, scale=1e3), draws.normal(7), dtype=torch.float32),
    ]


def _check(function: object, draws: Draws) -> CheckReport:
    return check(function, draws.normal(3, 4), draws.normal(3, 4))


def _large(draws: Draws) -> Case:
    return case("20,000 numbers", draws.normal(20_000), draws.normal(20_000), dtype=torch.float32)


GRADING = Grading(
    name="Product",
    arguments=("a", "b"),
    kind=autograd_function,
    reference=lambda a, b: a * b,
    cases=_cases,
    large=_large,
    builtin=torch.mul,
    check=_check,
    forbidden=("torch.autograd.grad", "torch.autograd.backward"),
    demands=(NOTHING_ON_CTX, NEEDED_ONLY),
)
