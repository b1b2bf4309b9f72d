"""What a function uses without being handed it: modules that can be found, and tensors that must not be missed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from gradwright.errors import UsageError
from gradwright.ground.graphs import graph_of
from gradwright.ground.outside import named_outside


def derivatives_wanted() -> bool:
    """Is anything recorded, or transformed, just now?"""
    return torch.is_grad_enabled() or forward_level() or torch._C._are_functorch_transforms_active()


class Strangers(TorchFunctionMode):
    """Under torch.func: the first operand that is neither known nor computed from what is known."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()
        self.known = {id(tensor): tensor for tensor in known}
        self.found: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and id(leaf) not in self.known and is_active(leaf):
                self.found = leaf
        result = func(*args, **(kwargs or {}))
        self.known.update((id(leaf), leaf) for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def is_active(tensor: Tensor) -> bool:
    """Does a derivative by it, or along it, go on?"""
    if tensor.requires_grad or is_functorch_wrapped_tensor(tensor):
        return True
    return forward_level() and forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]  # torch has no types here


def bare(tensor: Tensor) -> Tensor:
    """Without its graph and its wrappers. Modes don't see it: it is a look aside, and nothing is held back by it."""
    with torch._C.DisableTorchFunction():
        while is_functorch_wrapped_tensor(tensor):
            tensor = get_unwrapped(tensor)
        return tensor.detach()


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
    return any(forward_level() and forward_ad.unpack_dual(output).tangent is not None for output in outputs)  # type: ignore[no-untyped-call]  # torch has no types here


def forward_level() -> bool:
    """Is forward mode at work?"""
    return forward_ad._current_level >= 0


def modules_of(function: Any) -> Iterator[nn.Module]:
    """The module that a function is, or those that it names."""
    if isinstance(function, nn.Module):
        yield function
    else:
        yield from (value for _, value in _named_by(function) if isinstance(value, nn.Module))


def _named_by(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function names from outside: its closure, its globals, what it is bound to; lists of them opened."""
    if hasattr(function, "__wrapped__"):  # by functools.wraps
        yield from _named_by(function.__wrapped__)
    if isinstance(function, functools.partial):
        yield from _named_by(function.func)
        named: dict[str, Any] = {str(place): value for place, value in enumerate(function.args)} | function.keywords
    elif inspect.ismethod(function):
        yield from _named_by(function.__func__)
        named = {"self": function.__self__}
    elif inspect.isfunction(function):
        named = named_outside(function)
    else:
        named = dict(getattr(function, "__dict__", {}))
    for name, value in named.items():
        if isinstance(value, (list, tuple)):
            yield from ((f"{name}[{place}]", item) for place, item in enumerate(value))
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
        else:
            yield name, value


def stranger(caller: str, function: Any) -> UsageError:
    """The error that tells of a tensor that ``function`` uses without being handed it."""
    named = sorted({name for name, value in _named_by(function) if isinstance(value, Tensor) and is_active(value)})
    which = "the tensor " + " and ".join(f"`{name}`" for name in named) if named else "a tensor"
    label = getattr(function, "__qualname__", type(function).__name__)
    return UsageError(
        f"{caller}: {label} uses {which}, which needs a gradient and is none of its arguments\n"
        "  why    its gradient is taken by its arguments and by the parameters of modules it names: this tensor "
        "would silently get none\n"
        f"  do     hand it over: {caller}(function, state, ..., tensor), with a parameter of the function for it; or "
        "make the function an nn.Module that holds it"
    )
