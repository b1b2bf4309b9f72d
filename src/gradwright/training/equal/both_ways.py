"""The gradient of a batch at once and of its micro-batches, from the same state, which is put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training.accumulator import GradientAccumulator
from gradwright.training.batches import rebuilt
from gradwright.training.counting import Count, Normalize, Reduction
from gradwright.training.coupled.outputs import Combine
from gradwright.training.coupled.replay import Draws, left_alone
from gradwright.training.coupled.update import coupled_update

T = TypeVar("T")
Gradients = dict[str, Tensor]

_SMALL = 1e-3  # of all gradients: below it a parameter's error is told by this, not by its own size


@dataclass(frozen=True)
class Compared:
    """``repeat``: the error of the full batch's gradient against itself, a second time."""

    full: Gradients
    accumulated: Gradients
    error: float
    repeat: float
    by_parameter: Mapping[str, float]
    micro_batches: int


@dataclass(frozen=True)
class BothWays:
    """How the loss of a model is computed, of a batch and of its micro-batches."""

    loss: Callable[..., Any]
    forward: Callable[[nn.Module, Any], Any] | None
    combine: Combine
    split: Callable[[Any, int], list[Any]]
    size: int
    reduction: Reduction
    normalize: Normalize
    count: Count | Mapping[str, Count] | None

    def pieces(self, batch: Any) -> list[Any]:
        pieces = self.split(batch, self.size)
        if len(pieces) < 2:
            raise UsageError(
                f"the batch is one micro-batch of {self.size} samples: hand over a larger one, or say a smaller "
                "micro_batch_size"
            )
        return pieces

    def compared(self, model: nn.Module, batch: Any) -> Compared:
        pieces, draws = self.pieces(batch), Draws()
        full = gradients(model, draws, lambda: self.run(model, [batch]))
        again = gradients(model, draws, lambda: self.run(model, [batch]))
        summed = gradients(model, draws, lambda: self.run(model, pieces))
        size = _size(full)
        by_parameter = {
            name: float((summed[name] - full[name]).norm()) / (max(float(full[name].norm()), _SMALL * size) or 1.0)
            for name in full
        }
        return Compared(full, summed, error(summed, full), error(again, full), by_parameter, len(pieces))

    def run(self, model: nn.Module, pieces: list[Any]) -> None:
        """The gradient of a window of these micro-batches; of one it is the plain backward's, to the bit."""
        acc = GradientAccumulator(
            model,
            _NoStep(model.parameters()),
            accumulation_steps=len(pieces),
            normalize=self.normalize,
            count=self.count,
            on_nonfinite="ignore",
            coupled="accept",
            progress=False,
        )
        window, forward = acc.window(pieces), self.forward
        if forward is not None:
            coupled_update(acc, window, lambda piece: forward(model, piece), self.loss, combine=self.combine)
        else:
            acc.update(window, lambda piece: self.loss(model, piece), reduction=self.reduction)

    def alone(self, model: nn.Module, piece: Any) -> Tensor:
        """The loss of one micro-batch as it is written, with its graph; several are added up."""
        if self.forward is not None:
            made = self.forward(model, piece)
            value = self.loss(*made) if type(made) is tuple else self.loss(made)
        else:
            value = self.loss(model, piece)
        every = list(value.values()) if isinstance(value, Mapping) else [value]
        losses: list[Tensor] = [one[0] if isinstance(one, tuple) else one for one in every]
        return torch.stack([one.reshape(()) for one in losses]).sum()


class _NoStep(torch.optim.Optimizer):
    """Changes no parameter."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__([one for one in parameters if one.requires_grad], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing."""


def gradients(model: nn.Module, draws: Draws, run: Callable[[], None]) -> Gradients:
    """What ``run`` leaves in ``.grad``, in float64 on the CPU; buffers are put back."""
    draws.put_back()
    model.zero_grad(set_to_none=True)
    with left_alone(model), torch.enable_grad():
        run()
    return {
        name: (torch.zeros_like(one) if one.grad is None else one.grad).detach().to("cpu", torch.float64, copy=True)
        for name, one in model.named_parameters()
        if one.requires_grad
    }


def error(found: Gradients, wanted: Gradients) -> float:
    """|found - wanted| / |wanted|, over all parameters."""
    apart = _size({name: found[name] - wanted[name] for name in wanted})
    size = _size(wanted)
    return apart / size if size else (0.0 if apart == 0 else float("inf"))


def _size(of: Gradients) -> float:
    return float(torch.stack([one.norm() for one in of.values()]).norm())


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Gradients, buffers, training flags and the random state are put back."""
    kept = [(one, one.grad) for one in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    draws = Draws()
    try:
        with left_alone(model):
            yield
    finally:
        for parameter, gradient in kept:
            parameter.grad = gradient
        for module, mode in modes:
            module.training = mode
        draws.put_back()


def in_double(of: T) -> T:
    """A module, or a tree of tensors: reals as float64."""
    if isinstance(of, nn.Module):
        return of.double()
    made: T = rebuilt(of, _doubled)
    return made


def _doubled(leaf: Any) -> Any:
    if isinstance(leaf, Tensor) and leaf.is_complex():
        return leaf.to(torch.complex128)
    return leaf.double() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf
