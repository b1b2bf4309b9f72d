"""What an engine has to say of itself: how its ranks share gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradwright.training.ranks import Ranks


class Engine:
    """One process, or the data-parallel engine of a model.

    ``forwards_meet``: its forwards wait for one another (parameters are gathered), so every rank needs as many
    micro-batches. ``sums_outside``: gradients that are kept elsewhere than in ``.grad`` are summed by ``Ranks``.
    ``runs_backward``: the engine makes the backwards itself, of batches in the order in which they come.
    """

    forwards_meet = False
    sums_outside = True
    runs_backward = False

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.model, self.ranks = model, ranks

    @contextlib.contextmanager
    def micro_batch(self, *, share: bool) -> Iterator[None]:
        """Around forward and backward of one micro-batch; ``share``: what was summed up until its end is averaged over
        the ranks."""
        yield

    @property
    def module(self) -> nn.Module:
        """The model as it was written, whose names its parameters are told by."""
        return self.model

    @property
    def replicas(self) -> float:
        """What the engine divides the sum of the ranks' gradients by."""
        return float(self.ranks.count)

    def norm(self, parameters: Sequence[Tensor]) -> Tensor:
        """Of all gradients together (2-norm), the same number on every rank."""
        return norm_of(parameters)

    def meets_in_forward(self, share: bool) -> bool:
        """Whether the forward of such a micro-batch waits for the other ranks."""
        return self.forwards_meet

    def before_backward(self) -> None:
        """Raises: AccumulationError, where the gradients of this backward would not be shared."""

    def check(self) -> None:
        """After the last backward of a window. Raises: AccumulationError, where gradients were not shared."""

    def parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]


class SingleProcess(Engine):
    """A model by itself."""

    def __init__(self, model: nn.Module, seconds: float) -> None:
        super().__init__(model, Ranks(alone=True, seconds=seconds))


def norm_of(parameters: Sequence[Tensor]) -> Tensor:
    """2-norm of the gradients that are known here; of sharded ones, whole. Each mesh has a sum of its own."""
    by_mesh: dict[Any, list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            gradient = entries_of(parameter.grad) if parameter.grad.is_sparse else parameter.grad
            by_mesh.setdefault(getattr(gradient, "device_mesh", None), []).append(gradient)
    norms = [whole(torch.nn.utils.get_total_norm(gradients)) for gradients in by_mesh.values()]
    if not norms:
        return torch.zeros((), dtype=torch.float64)
    norm: Tensor = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    return norm


@torch.no_grad()
def entries_of(gradient: Tensor) -> Tensor:
    """What a sparse gradient (``nn.Embedding(sparse=True)``) holds, each row once; any other as it is."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


@torch.no_grad()
def clip(parameters: Sequence[Tensor], max_norm: float, norm: Tensor) -> None:
    """As ``clip_grad_norm_`` does it, by a norm that is known: where it is small enough, it multiplies by 1. On an
    accelerator nobody looks, which would wait for all that is queued."""
    if norm.device.type == "cpu" and norm + 1e-6 <= max_norm:
        return
    sparse = [one.grad for one in parameters if one.grad is not None and one.grad.is_sparse]
    dense = [one for one in parameters if one.grad is not None and not one.grad.is_sparse]
    torch.nn.utils.clip_grads_with_norm_(dense, max_norm, norm)
    for gradient in sparse:
        gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0).to(gradient.device))


def whole(value: Any) -> Any:
    """A DTensor's value, whole; any other tensor as it is."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value
