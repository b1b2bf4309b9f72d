"""How ``huber`` is graded."""

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, case


def _reference(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    return F.huber_loss(prediction, target, delta=delta)


def _cases(draws: Draws) -> list[Case]:
    delta = draws.uniform(0.2, 0.7)
    exact = torch.tensor([1.0, -1.0, 0.0, 2.0, 0.5], dtype=torch.float64)  # |e| = delta, and e = 0
    return [
        case("8 rows of 3", draws.normal(8, 3, scale=2), draws.normal(8, 3, grad=False)),
        case("a drawn delta", draws.normal(20), draws.normal(20, grad=False), delta),
        case("delta = 5, all small", draws.normal(12), draws.normal(12, grad=False), 5.0),
        case("a target with a gradient", draws.normal(6, scale=2), draws.normal(6)),
        case("errors of exactly delta", exact.requires_grad_(), torch.zeros(5, dtype=torch.float64)),
        case("one number", draws.normal(1), draws.normal(1, grad=False)),
        case("transposed tensors", draws.normal(5, 3), draws.normal(5, 3, grad=False), view=Tensor.t),
        case("errors of 1e15", draws.normal(9, scale=1e15), draws.normal(9, grad=False), dtype=torch.float32),
    ]


def _check(huber: object, draws: Draws) -> CheckReport:
    return check(huber, draws.normal(3, 4, scale=2), draws.normal(3, 4, grad=False))


def _sized(draws: Draws, count: int) -> Case:
    return case(f"{count} errors", draws.normal(count), draws.normal(count, grad=False), dtype=torch.float32)


GRADING = Grading(
    name="huber",
    arguments=("prediction", "target", "delta"),
    reference=_reference,
    cases=_cases,
    large=lambda draws: _sized(draws, 20_000),
    builtin=_reference,
    check=_check,
    forbidden=("huber_loss", "smooth_l1_loss", "gradwright.losses"),
    demands=(no_loop(_sized, "errors"),),
)
