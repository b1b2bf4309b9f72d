"""How ``gradient_penalty`` is graded: on a critic whose slope is known in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Demand, Grading
from gradwright.exercises.grading.inputs import Case, Draws, Leaves
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.outcome import NotYet


@dataclass
class Critic:
    """tanh(x · inner) · outer.  Shapes: inner [D, H], outer [H]."""

    inner: Tensor
    outer: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.inner) @ self.outer


def _reference(critic: Critic, x: Tensor) -> Tensor:
    slope = ((1 - torch.tanh(x @ critic.inner) ** 2) * critic.outer) @ critic.inner.t()
    norm: Tensor = torch.linalg.vector_norm(slope, dim=1)
    return (norm - 1).square().mean()


def _leaves(args: tuple[Any, ...]) -> Leaves:
    return {"the critic's inner weights": args[0].inner, "the critic's outer weights": args[0].outer}


def _case(draws: Draws, samples: int, *, flat: bool = False, dtype: torch.dtype = torch.float64) -> Case:
    x = draws.normal(samples, 3, grad=False)
    inner, outer = draws.normal(3, 5, grad=False), draws.normal(5, grad=False) * (not flat)

    def make(kind: torch.dtype) -> tuple[Any, ...]:
        weights = (weight.to(kind, copy=True).requires_grad_() for weight in (inner, outer))
        return Critic(*weights), x.to(kind, copy=True)

    label = "a flat critic" if flat else f"{samples} samples"
    # A small number under the root, for a slope of 0, is as right as vector_norm.
    return Case(label, make, dtype, _leaves, within=1e-3 if flat else None)


def _cases(draws: Draws) -> list[Case]:
    return [
        _case(draws, 5),
        _case(draws, 1),
        _case(draws, 4, flat=True),
        _case(draws, 6, dtype=torch.float32),
    ]


def _check(gradient_penalty: Callable[..., Tensor], draws: Draws) -> CheckReport:
    x = draws.normal(4, 3, grad=False)

    def penalty(inner: Tensor, outer: Tensor) -> Tensor:
        return gradient_penalty(Critic(inner, outer), x.to(inner))

    return check(penalty, draws.normal(3, 5), draws.normal(5), level="quick")


def _nothing_added(tried: Tried) -> str:
    case = tried.cases()[0]
    args = case.args()
    tried.call(case, args)
    for name, leaf in _leaves(args).items():
        if leaf.grad is not None:
            raise NotYet(
                f"{tried.name} adds to the .grad of {name}",
                where=tried.where,
                why="the optimizer would take it for the loss's gradient",
                do="torch.autograd.grad returns a gradient without adding it anywhere; backward() adds",
            )
    return "nothing added to .grad"


GRADING = Grading(
    name="gradient_penalty",
    arguments=("critic", "x"),
    reference=_reference,
    cases=_cases,
    large=lambda draws: _case(draws, 512, dtype=torch.float32),
    check=_check,
    forbidden=("gradwright.penalties", "gradwright.derivatives"),
    demands=(Demand("side effects", _nothing_added), no_loop(_case, "samples")),
)
