"""What the caller names as the truth, as a callable of the subject's own flat arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradwright.checking.context import is_function
from gradwright.errors import UsageError
from gradwright.ground.held import call_with
from gradwright.ground.tensors import map_tensors, tensors_in


class Misfit(UsageError):
    """The formula or the reference that the caller gave does not fit the subject; the message says how."""


class Nest:
    """How the flat arguments of a subject stand in the inputs that the caller gave.

    ``reached``: the positions that a formula of the inputs can say something of (a module's parameters are none).
    """

    def __init__(self, inputs: Sequence[Any], args: Sequence[Any]) -> None:
        self.inputs = tuple(inputs)
        self.flat = len(inputs) == len(args) and all(one is other for one, other in zip(inputs, args, strict=True))
        count = len(args) if self.flat else sum(1 for _ in tensors_in(list(inputs)))
        self.reached = tuple(range(count))

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.flat:
            return list(args)
        left = iter(args)
        return list(map_tensors(self.inputs, lambda _: next(left)))


def twin_of(
    reference: Callable[..., Any], nest: Nest, args: Sequence[Any], names: Sequence[str]
) -> tuple[Any, tuple[int, ...]]:
    """``reference`` as a callable of the flat arguments, and the positions that it depends on.

    A module with parameters of the subject's names and shapes is called with the subject's; any other has its own.
    """
    call: Any = reference
    if is_function(reference):
        call = call.apply
    learnt = names[len(nest.reached) :]
    if isinstance(reference, torch.nn.Module):
        own = {name: parameter for name, parameter in reference.named_parameters() if parameter.requires_grad}
        shapes = {name: args[len(nest.reached) + number].shape for number, name in enumerate(learnt)}
        shared = bool(learnt) and {name: parameter.shape for name, parameter in own.items()} == shapes
        rest = {
            name: value for name, value in reference.state_dict(keep_vars=True).items() if not shared or name not in own
        }

        def of_module(*flat: Any) -> Any:
            wide = any(isinstance(value, torch.Tensor) and value.dtype is torch.float64 for value in flat)
            state = {name: _fresh(value, wide) for name, value in rest.items()}
            if shared:
                state |= dict(zip(learnt, flat[len(nest.reached) :], strict=True))
            return call_with(reference, state, tuple(nest(flat)), {})

        return of_module, (*nest.reached, *range(len(nest.reached), len(args))) if shared else nest.reached

    def of_flat(*flat: Any) -> Any:
        return call(*nest(flat))

    return of_flat, nest.reached


def _fresh(value: torch.Tensor, wide: bool) -> torch.Tensor:
    return value.detach().to(torch.float64 if wide and value.is_floating_point() else value.dtype, copy=True)
