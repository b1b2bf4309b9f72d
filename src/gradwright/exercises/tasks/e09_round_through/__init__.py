"""How ``round_through`` is graded: its gradient is held to the one that is meant, not to that of rounding."""

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case


def _cases(draws: Draws) -> list[Case]:
    halves = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 3.0, 0.0], dtype=torch.float64)
    return [
        case("3 rows of 4", draws.normal(3, 4, scale=3)),
        case("halves and whole numbers", halves.requires_grad_()),
        case("a single number", draws.normal(scale=3)),
        case("an empty batch", draws.normal(0, 4)),
        case("a transposed tensor", draws.normal(5, 3, scale=3), view=Tensor.t),
        case("large values in single precision", draws.normal(6, scale=1e4), dtype=torch.float32),
    ]


def _check(round_through: object, draws: Draws) -> CheckReport:
    return check(round_through, draws.normal(3, 4, scale=3), expect=lambda cotangent, x: cotangent)


GRADING = Grading(
    name="round_through",
    arguments=("x",),
    reference=torch.round,
    surrogate=lambda x: x * 1,
    cases=_cases,
    large=lambda draws: case("20,000 numbers", draws.normal(20_000), dtype=torch.float32),
    builtin=torch.round,
    check=_check,
    forbidden=("gradwright.functions.flow",),
    demands=(no_loop(lambda draws, n: case(f"{n} numbers", draws.normal(n), dtype=torch.float32), "numbers"),),
)
