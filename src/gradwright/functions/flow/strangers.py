"""What a function uses without being handed it: modules that can be found, and tensors that must not be missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient.levels import unwrapped
from gradwright.ground.graphs import graph_of
from gradwright.ground.outside import named_by, sources
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.levels import (
    forward_level,
    is_functorch_wrapped_tensor,
    is_transformed,
)
from gradwright.ground.torch_versions.modes import DisableTorchFunction


def derivatives_wanted() -> bool:
    """Is anything recorded, or transformed, just now?"""
    return torch.is_grad_enabled() or is_transformed()


class Strangers(TorchFunctionMode):
    """Under torch.func: an operand that is neither known nor computed from what is known."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()
        self.known = {id(tensor): tensor for tensor in known}
        self.found: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = list(tensors_in(result))
        # What writes in place may return nothing.
        if result is None or any(tensor.is_floating_point() or tensor.is_complex() for tensor in made):
            for tensor in sources(func, args, kwargs or {}):
                if id(tensor) not in self.known and is_active(tensor):
                    self.found = tensor
        self.known.update((id(tensor), tensor) for tensor in made)
        return result


def is_active(tensor: Tensor) -> bool:
    """Does a derivative by it, or along it, go on?"""
    if tensor.requires_grad or is_functorch_wrapped_tensor(tensor):
        return True
    return forward_level() >= 0 and forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]  # torch has no types here


def bare(tensor: Tensor) -> Tensor:
    """Without its graph and its wrappers. Modes don't see it: it is a look aside, and nothing is held back by it."""
    with DisableTorchFunction():
        return unwrapped(tensor).detach()


def leaf_of(tensor: Tensor) -> Tensor:
    """A leaf with its values."""
    leaf = bare(tensor)
    return leaf.requires_grad_() if leaf.is_floating_point() or leaf.is_complex() else leaf


def has_other_roots(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Do the outputs' derivatives lead to any other leaf, or have they a tangent, which no leaf has?"""
    known = {id(leaf) for leaf in leaves}
    for node in graph_of(outputs):
        root = getattr(node, "variable", None)
        if isinstance(root, Tensor) and id(root) not in known:
            return True
    return any(forward_level() >= 0 and forward_ad.unpack_dual(output).tangent is not None for output in outputs)  # type: ignore[no-untyped-call]  # torch has no types here


def modules_of(function: Any) -> Iterator[nn.Module]:
    """The module that a function is, or those that it names."""
    if isinstance(function, nn.Module):
        yield function
    else:
        yield from (value for _, value in named_by(function) if isinstance(value, nn.Module))


def stranger(caller: str, function: Any) -> UsageError:
    """The error that tells of a tensor that ``function`` uses without being handed it."""
    named = sorted({name for name, value in named_by(function) if isinstance(value, Tensor) and is_active(value)})
    which = "the tensor " + " and ".join(f"`{name}`" for name in named) if named else "a tensor"
    label = getattr(function, "__qualname__", type(function).__name__)
    return UsageError(
        f"{caller}: {label} uses {which}, which needs a gradient and is none of its arguments\n"
        "  why    its gradient is taken by its arguments and by the parameters of modules it names: this tensor "
        "would silently get none\n"
        f"  do     hand it over: {caller}(function, state, ..., tensor), with a parameter of the function for it; or "
        "make the function an nn.Module that holds it"
    )
