"""How ``batch_jacobian`` is graded: on graphs whose Jacobian is known in closed form."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradwright.exercises.grading.demands.no_loop import no_loop
from gradwright.exercises.grading.grading import Demand, Grading
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.tried import Tried, vjp


def _reference(y: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    """Of y = tanh(z W): (1 - y²)[b, k] · W[d, k]."""
    return ((1 - y**2)[:, :, None] * weight.t()[None]).detach()


def _call(batch_jacobian: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if batch_jacobian is _reference:
        return _reference(*args)
    result = batch_jacobian(*args[:2])
    return result.detach() if isinstance(result, Tensor) else result


def _sized(draws: Draws, samples: int, dtype: torch.dtype = torch.float64, outputs: int = 2, inputs: int = 3) -> Case:
    x, weight = draws.normal(samples, inputs, grad=False), draws.normal(inputs, outputs, grad=False)

    def make(kind: torch.dtype) -> tuple[Any, ...]:
        leaf = x.to(kind, copy=True).requires_grad_()
        z = leaf * 2
        return torch.tanh(z @ weight.to(kind)), z, weight.to(kind)

    return Case(f"B = {samples}, K = {outputs}, D = {inputs}", make, dtype)


def _cases(draws: Draws) -> list[Case]:
    return [
        _sized(draws, 5),
        _sized(draws, 1),
        _sized(draws, 3, outputs=3, inputs=3),
        _sized(draws, 4, outputs=1, inputs=2),
        _sized(draws, 2, outputs=4, inputs=1),
        _sized(draws, 6, torch.float32),
    ]


def _graph_stays(tried: Tried) -> str:
    """The loss's own backward comes afterwards, through the same graph."""
    y, z, _ = args = tried.cases()[0].args()
    tried.call(tried.cases()[0], args)
    tried.guard(lambda: vjp(y.sum(), [z], y.new_ones(())), "a backward through y afterwards")
    return "there afterwards"


GRADING = Grading(
    name="batch_jacobian",
    arguments=("y", "z"),
    reference=_reference,
    outcome=_call,
    cases=_cases,
    large=lambda draws: _sized(draws, 256, torch.float32, 8, 16),
    forbidden=("gradwright.derivatives",),
    demands=(no_loop(_sized, "samples"), Demand("graph", _graph_stays)),
)
