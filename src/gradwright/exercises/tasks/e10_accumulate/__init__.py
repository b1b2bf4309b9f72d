"""How ``accumulate`` is graded: by the parameters after the update."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from gradwright.exercises.grading.grading import Demand, Grading
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.outcome import NotYet


def _reference(model: nn.Module, micro_batches: Sequence[tuple[Tensor, Tensor]], optimizer: Optimizer) -> None:
    x, y = (torch.cat(parts) for parts in zip(*micro_batches, strict=True))
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()


def _updated(accumulate: Callable[..., Any], args: tuple[Any, ...]) -> Tensor:
    model = args[0]
    accumulate(*args)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _case(
    draws: Draws,
    label: str,
    sizes: Sequence[int],
    optimizer: Callable[..., Optimizer],
    *,
    left_over: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Case:
    weights = [draws.normal(5, 3, grad=False), draws.normal(5, grad=False), draws.normal(1, 5, grad=False)]
    batches = [(draws.normal(size, 3, grad=False), draws.normal(size, 1, grad=False)) for size in sizes]

    def make(kind: torch.dtype) -> tuple[Any, ...]:
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1, bias=False)).to(kind)
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.data.copy_(weight)
            parameter.grad = torch.full_like(parameter, 3.0) if left_over else None
        return model, [(x.to(kind), y.to(kind)) for x, y in batches], optimizer(model.parameters())

    return Case(label, make, dtype)


def _sgd(parameters: Any) -> Optimizer:
    return SGD(parameters, lr=0.1, momentum=0.9)


def _cases(draws: Draws) -> list[Case]:
    return [
        _case(draws, "micro-batches of 4, 4 and 1 samples", (4, 4, 1), _sgd),
        _case(draws, "gradients of an earlier backward in .grad", (2, 2), _sgd, left_over=True),
        _case(draws, "AdamW", (3, 1), lambda parameters: AdamW(parameters, lr=0.05)),
        _case(draws, "one micro-batch", (5,), _sgd),
        _case(draws, "single precision", (3, 2, 2), _sgd, dtype=torch.float32),
    ]


def _one_update(tried: Tried) -> str:
    model, micro_batches, optimizer = args = tried.cases()[0].args()
    seen: list[int] = []
    steps: list[None] = []
    model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    optimizer.register_step_pre_hook(lambda *_: steps.append(None))
    tried.guard(lambda: tried.subject(*args), tried.name)
    asked = [len(y) for _, y in micro_batches]
    if sorted(seen) != sorted(asked):
        raise NotYet(
            f"{tried.name} calls the model with {seen} samples, for micro-batches of {asked}",
            where=tried.where,
            why="the whole batch does not fit into memory: that is why there are micro-batches",
            do="call the model, and backward, once for each micro-batch",
        )
    if len(steps) != 1:
        raise NotYet(
            f"{tried.name} steps {len(steps)} times for one update",
            where=tried.where,
            do="call optimizer.step() once, after the last micro-batch",
        )
    return f"{len(seen)} micro-batches, 1 step"


GRADING = Grading(
    name="accumulate",
    arguments=("model", "micro_batches", "optimizer"),
    reference=_reference,
    outcome=_updated,
    cases=_cases,
    large=lambda draws: _case(draws, "16 micro-batches of 64 samples", (64,) * 16, _sgd, dtype=torch.float32),
    builtin=_reference,
    forbidden=("gradwright.training",),
    demands=(Demand("one update", _one_update),),
)
