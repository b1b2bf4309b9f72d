"""How ``inner_gradient`` is graded: on graphs of a small network, whose weights are the leaves."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Grading
from gradwright.exercises.grading.inputs import Case, Draws, Leaves


def _graph(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes: x [B, 3], weight [3, D]; y [B] and z [B, D]."""
    z = torch.tanh(x @ weight)
    return (z**3).sum(1) + torch.sin(z[:, 0] * z[:, -1]), z


def _reference(y: Tensor, z: Tensor) -> Tensor:
    gradient = 3 * z**2
    inner = torch.cos(z[:, 0] * z[:, -1])
    first, last = torch.zeros(z.shape[1]).to(z), torch.zeros(z.shape[1]).to(z)
    first[0], last[-1] = 1.0, 1.0
    return gradient + (inner * z[:, -1])[:, None] * first + (inner * z[:, 0])[:, None] * last


def _call(inner_gradient: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    y, z, _ = args
    return inner_gradient(y, z)


def _weights(args: tuple[Any, ...]) -> Leaves:
    return {"the weights behind z": args[2]}


def _sized(draws: Draws, samples: int, dtype: torch.dtype = torch.float64, width: int = 4) -> Case:
    x, weight = draws.normal(samples, 3, grad=False), draws.normal(3, width, grad=False)

    def make(kind: torch.dtype) -> tuple[Any, ...]:
        leaf = weight.to(kind, copy=True).requires_grad_()
        return *_graph(x.to(kind), leaf), leaf

    return Case(f"{samples} samples", make, dtype, _weights)


def _cases(draws: Draws) -> list[Case]:
    return [
        _sized(draws, 5),
        _sized(draws, 1),
        _sized(draws, 4, width=4),
        _sized(draws, 3, width=1),
        _sized(draws, 6, torch.float32),
    ]


def _check(inner_gradient: Callable[..., Tensor], draws: Draws) -> CheckReport:
    x = draws.normal(4, 3, grad=False)

    def inner_gradient_of(weight: Tensor) -> Tensor:
        return inner_gradient(*_graph(x.to(weight), weight if weight.requires_grad else weight.requires_grad_()))

    return check(inner_gradient_of, draws.normal(3, 4), level="quick")


GRADING = Grading(
    name="inner_gradient",
    arguments=("y", "z"),
    reference=_reference,
    outcome=_call,
    cases=_cases,
    large=lambda draws: _sized(draws, 256, torch.float32, 16),
    check=_check,
    forbidden=("gradwright.derivatives",),
    demands=(no_loop(_sized, "samples"),),
)
