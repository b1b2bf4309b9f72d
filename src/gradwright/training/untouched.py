"""Between the backwards of a window nobody else changes its gradients, and nobody else steps its optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import AccumulationError
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.torch_versions.optimizers import has_step_hooks
from gradwright.ground.torch_versions.tensors import version_of

Named = Sequence[tuple[str, Tensor]]


class Untouched:
    """``.grad`` as the accumulator left it: by the tensors' versions, which each change in place counts.

    Cost: a look at each parameter, twice a micro-batch. Memory: none; gradients are held as long as the window runs.
    """

    def __init__(self) -> None:
        self._left: list[tuple[Tensor | None, int]] = []

    def leave(self, named: Named) -> None:
        grads = [parameter.grad for _, parameter in named]
        self._left = [(grad, 0 if grad is None else version_of(grad)) for grad in grads]

    def check(self, named: Named, where: str, *, only_cleared: bool = False) -> None:
        """Raises: AccumulationError, where gradients were changed; with ``only_cleared`` where they are gone."""
        for (name, parameter), (left, version) in zip(named, self._left, strict=False):
            here = parameter.grad
            if here is left and (left is None or version_of(left) == version):
                continue
            if here is None or (not only_cleared and _is_zero(here)):
                raise AccumulationError(
                    f"{where}: the gradient of {name} was cleared inside of this window (zero_grad() in its loop?), "
                    "and what its micro-batches had added was lost. Leave zero_grad() out: a window begins with "
                    "cleared gradients"
                )
            if not only_cleared:
                raise AccumulationError(
                    f"{where}: the gradient of {name} was changed inside of this window, not by acc.backward: by a "
                    "loss.backward() beside it, a clip or a scaler in its loop, or another accumulator over the same "
                    "parameters. Give each loss to acc.backward; say max_norm= and scaler= to GradientAccumulator; "
                    "run one window after the other"
                )


def _is_zero(gradient: Tensor) -> bool:
    return not bool(torch.any(gradient.coalesce().values() if gradient.is_sparse else gradient))


def guard_step(owner: Any, optimizer: Any, refuse: Callable[[Any], None]) -> None:
    """``refuse(owner)`` is called before each step of ``optimizer``; it raises where the step is not the owner's."""
    inner = getattr(optimizer, "optimizer", optimizer)
    if not has_step_hooks(inner):
        return  # a class of the user's that only looks like one
    held = weakref.ref(owner)

    def before(*_: Any) -> None:
        if (living := held()) is not None:
            refuse(living)

    weakref.finalize(owner, beside_the_graph(inner.register_step_pre_hook(before)).remove)
