"""How ``two_losses`` is graded."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case


def _reference(prediction: Tensor, target: Tensor, trusted: Tensor) -> Tensor:
    error = prediction - target
    squared, absolute = error[trusted].square(), error[~trusted].abs()
    return sum((part.mean() for part in (squared, absolute) if part.numel()), start=error.sum() * 0)


def _sized(draws: Draws, count: int) -> Case:
    every_other = torch.arange(count) % 2 == 0
    return case(
        f"{count} errors", draws.normal(count), draws.normal(count, grad=False), every_other, dtype=torch.float32
    )


def _cases(draws: Draws) -> list[Case]:
    one, none = torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, 3, dtype=torch.bool)
    most = torch.ones(12, dtype=torch.bool)
    most[5] = False
    return [
        case("8 rows of 3", draws.normal(8, 3, scale=2), draws.normal(8, 3, grad=False), draws.mask(8, 3)),
        case("all but one trusted", draws.normal(12), draws.normal(12, grad=False), most),
        case("all trusted", draws.normal(4, 3), draws.normal(4, 3, grad=False), one),
        case("none trusted", draws.normal(4, 3), draws.normal(4, 3, grad=False), none),
        case("no entries", draws.normal(0, 3), draws.normal(0, 3, grad=False), none[:0]),
        case("one number", draws.normal(1), draws.normal(1, grad=False), draws.mask(1)),
        case("single precision", draws.normal(9), draws.normal(9, grad=False), draws.mask(9), dtype=torch.float32),
    ]


def _check(two_losses: object, draws: Draws) -> CheckReport:
    return check(two_losses, draws.normal(3, 4), draws.normal(3, 4, grad=False), draws.mask(3, 4))


GRADING = Grading(
    name="two_losses",
    arguments=("prediction", "target", "trusted"),
    reference=_reference,
    cases=_cases,
    large=lambda draws: _sized(draws, 20_000),
    check=_check,
    demands=(no_loop(_sized, "errors"),),
)
