"""One update: unscale, smooth, clip, look, step, schedule; once a window, in that order.

Clipping before unscaling compares a scaled norm; a step of the schedule for each micro-batch runs through it k times
too fast (research/losses_and_accumulation.md, "Rules of the road").
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.tensors import foreach_mul_
from gradwright.training.engines.engine import clip

OnNonfinite: TypeAlias = Literal["error", "skip", "ignore"]


@dataclass(frozen=True)
class Update:
    """What became of a window.

    ``losses``: each loss over all micro-batches and ranks, a number without a graph. ``items``: what it was divided by.
    ``gradient_norm``: before it was clipped; None where nothing looked at it. ``why_not``: empty where a step was made.
    ``weights``: of each loss; ``losses`` are without them.
    """

    window: int
    losses: dict[str, Tensor]
    items: dict[str, float]
    gradient_norm: Tensor | None = None
    why_not: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def stepped(self) -> bool:
        return not self.why_not

    @property
    def loss(self) -> float:
        """Its losses, each by its weight, summed up."""
        return float(sum(self.weights.get(name, 1.0) * float(loss) for name, loss in self.losses.items()))


class Smoothing(Protocol):
    """What is done with the sum of gradients before it is clipped."""

    def smooth(self, parameters: Sequence[Tensor]) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass
class Stepping:
    """What an update is made of."""

    optimizer: torch.optim.Optimizer
    scaler: Any = None
    max_norm: float | None = None
    scheduler: Any = None
    smoothing: Smoothing | None = None
    on_nonfinite: OnNonfinite = "error"
    at_work: bool = field(default=False, init=False)  # it is what steps the optimizer

    def __post_init__(self) -> None:
        if self.on_nonfinite not in ("error", "skip", "ignore"):
            raise UsageError(f"on_nonfinite is {self.on_nonfinite!r}: it is 'error', 'skip' or 'ignore'")
        if self.max_norm is not None and not self.max_norm > 0:
            raise UsageError(f"max_norm is {self.max_norm!r}: it is a number above 0")
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise UsageError("ReduceLROnPlateau steps by a metric: leave scheduler= out, and call its step(metric)")
        if self.scaler is not None and not self.scaler.is_enabled():
            self.scaler = None
        if self.scaler is not None and self.wants_closure:
            raise UsageError(f"a gradient scaler can't step {type(self.optimizer).__name__}, which needs a closure")
        if self.smoothing is not None and self.wants_closure:
            raise UsageError(
                f"{type(self.optimizer).__name__} evaluates the gradient several times for a step, so a mean over "
                "updates would take some of them twice: leave smoothing= out"
            )

    def scaled(self, loss: Tensor) -> Tensor:
        return loss if self.scaler is None else self.scaler.scale(loss)

    @property
    def unscaling(self) -> float:
        """What undoes the gradient scaler's scale; read from its device."""
        return 1.0 if self.scaler is None else 1.0 / self.scaler.get_scale()

    @cached_property
    def wants_closure(self) -> bool:
        closure = inspect.signature(self.optimizer.step).parameters.get("closure")
        return closure is not None and closure.default is inspect.Parameter.empty

    def refuse_closures(self) -> None:
        if self.wants_closure:
            raise UsageError(
                f"{type(self.optimizer).__name__} evaluates the loss several times for a step, so it needs "
                "to run through the window again: use acc.update(window, loss_of, reduction=...) instead of a loop"
            )

    def prepare(
        self,
        parameters: Sequence[Tensor],
        norm_of: Callable[[Sequence[Tensor]], Tensor],
        *,
        summed: Callable[[], None],
        stepping: Callable[[], None],
    ) -> tuple[Tensor | None, bool]:
        """All up to the step itself: the norm of the gradient, and whether it is finite (or its scaler's business)."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
            self._unscale_others(parameters)
        looks = self.on_nonfinite != "ignore" and self.scaler is None
        norm = norm_of(parameters) if looks or self.smoothing is not None else None
        finite = norm is None or bool(torch.isfinite(norm))
        if finite:
            summed()
        if finite and self.smoothing is not None:
            self.smoothing.smooth(parameters)
        if self.max_norm is not None and (finite or not looks):
            norm = norm_of(parameters) if norm is None or self.smoothing is not None else norm
            clip(parameters, self.max_norm, norm)
        if finite:
            stepping()
        return norm, finite or not looks

    @torch.no_grad()
    def _unscale_others(self, parameters: Sequence[Tensor]) -> None:
        """What the optimizer does not step has its part in the norm, and the scaler leaves it alone."""
        stepped = {id(one) for group in self.optimizer.param_groups for one in group["params"]}
        others = [one.grad for one in parameters if id(one) not in stepped and one.grad is not None]
        if others:
            foreach_mul_(others, self.unscaling)

    def step(self, closure: Callable[[], Any] | None = None) -> str:
        """The optimizer, then the schedule; why no step was made, or nothing."""
        self.at_work = True
        try:
            return self._step(closure)
        finally:
            self.at_work = False

    def _step(self, closure: Callable[[], Any] | None) -> str:
        if self.scaler is None:
            self.optimizer.step(closure) if closure is not None else self.optimizer.step()
        else:
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() < before:
                return "the gradient scaler met a gradient that is not finite, and lowered its scale"
        if self.scheduler is not None:
            self.scheduler.step()
        return ""
