"""Tensors that a forward uses without taking them as inputs: they would silently get no gradient.

A forward runs with grad mode off, so autograd can't tell. Its first call for some types of arguments is watched: an
operation on a tensor that requires a gradient (or has a tangent), and that is neither an input nor made inside, marks
what it returns, and what it writes to; an output that is marked is refused. What is only looked at (a shape, a
comparison, a log entry) marks no output. What leaves torch (NumPy, a pointer) is not seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from gradwright.functions.custom_gradient.call import split
from gradwright.functions.custom_gradient.contract import Inputs
from gradwright.functions.custom_gradient.levels import unwrapped
from gradwright.functions.custom_gradient.messages import complaint, listed
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.ground.outside import named_by, sources
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.dynamo import uncompiled, uncompiled_throughout
from gradwright.ground.torch_versions.levels import (
    forward_level,
    forward_mode_is_on,
    is_functorch_wrapped_tensor,
    set_forward_grad_enabled,
)
from gradwright.ground.torch_versions.modes import DisableTorchFunction
from gradwright.ground.torch_versions.tensors import memory_id, version_of
from gradwright.ground.torch_versions.trees import tree_leaves


@uncompiled
def watched_once(definition: Definition) -> tuple[Definition, list[Tensor]]:
    """The same, its forward watched when it runs for the first time; and what it will be found to use. With grad mode
    off nothing is refused."""
    inputs, done, refused = definition.inputs, False, torch.is_grad_enabled() or forward_mode_is_on()
    found: list[Tensor] = []
    # Looked at here: in the forward, below torch.func's levels, a tensor that they wrap shows no tangent.
    named = [tensor for _, tensor in _named_tensors(inputs.forward) if _has_derivative(tensor)]

    @functools.wraps(inputs.forward)
    @uncompiled_throughout  # Dynamo would trace the watch, which looks behind wrappers
    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if done:
            return inputs.forward(*args, **kwargs)
        done = True
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        with _Watch(leaves, named) as watch:
            try:
                result = inputs.forward(*args, **kwargs)
            except RuntimeError as error:  # torch's own assertion, for a batch that comes from outside of a vmap
                if watch.met and refused:
                    raise _stranger(inputs, watch.met) from error
                raise
        outputs = [leaf for leaf in tree_leaves(split(result, inputs)[0]) if isinstance(leaf, Tensor)]
        found[:] = [stranger for output in outputs for stranger in watch.behind(output)]
        if found and refused:
            raise _stranger(inputs, found)
        return result

    return replace(definition, inputs=replace(inputs, forward=forward)), found


class _Watch(TorchFunctionMode):
    """By id: ``own``, what may be used: inputs, and what was made inside; ``named``, strangers that the forward's code
    names; ``marked``, what is made of strangers, with them; ``written``, memory that something made of strangers was
    written to, through whichever view. ``met``: strangers that the operation just now is handed.

    Tensors that torch.func wraps are strangers only where they are named: those that a torch.func inside makes are not
    seen being made."""

    def __init__(self, leaves: Sequence[Tensor], named: Sequence[Tensor]) -> None:
        super().__init__()
        self.named = {id(tensor) for tensor in named}
        self.own = WeakValueDictionary({id(leaf): leaf for leaf in leaves})
        self.marked: dict[int, tuple[Tensor, list[Tensor]]] = {}  # the tensor is held: its id must not be another's
        self.written: dict[int, tuple[UntypedStorage, list[Tensor]]] = {}  # and so is the memory
        self.met: list[Tensor] = []

    @uncompiled
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handed = list(tensors_in([args, kwargs]))
        before = [_version(tensor) for tensor in handed]
        found = self.met = [stranger for tensor in sources(func, args, kwargs) for stranger in self.behind(tensor)]
        result = func(*args, **kwargs)
        self.met = []
        results = list(tensors_in(result))
        written = [
            tensor
            for tensor, version in zip(handed, before, strict=True)
            if version != _version(tensor) or (version is None and any(tensor is each for each in results))
        ]
        if func is Tensor.__setitem__:  # which returns nothing
            written = handed[:1]
        for tensor in [*results, *written]:
            if not found:
                self.own[id(tensor)] = tensor
            elif tensor.is_floating_point() or tensor.is_complex():
                self.marked[id(tensor)] = (tensor, found)
        memories = map(_memory, written if found else ())
        self.written |= {memory_id(memory): (memory, found) for memory in memories if memory is not None}
        return result

    def behind(self, tensor: Tensor) -> list[Tensor]:
        """The strangers that a tensor is made of."""
        if id(tensor) in self.marked:
            return self.marked[id(tensor)][1]
        if self.written and (memory := _memory(tensor)) is not None and memory_id(memory) in self.written:
            return self.written[memory_id(memory)][1]
        if id(tensor) in self.own:
            return []
        known = id(tensor) in self.named
        return [tensor] if known or (not is_functorch_wrapped_tensor(tensor) and _has_derivative(tensor)) else []


def _has_derivative(tensor: Tensor) -> bool:
    """Does it require a gradient, or have a tangent? A forward runs with tangents off."""
    if tensor.requires_grad or forward_level() < 0:
        return tensor.requires_grad
    with DisableTorchFunction(), set_forward_grad_enabled(True):
        return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]  # torch has no types here


def _version(tensor: Tensor) -> int | None:
    """How often it was written to, through whichever view; ``None`` for an inference tensor, which does not count."""
    with DisableTorchFunction():  # a look aside, which other modes don't see
        inner = unwrapped(tensor)
        return None if inner.is_inference() else version_of(inner)


def _memory(tensor: Tensor) -> UntypedStorage | None:
    """Where its numbers lie; ``None``, where that is in several places (sparse), or elsewhere (subclasses)."""
    with DisableTorchFunction(), suppress(NotImplementedError, RuntimeError):
        return unwrapped(tensor).untyped_storage()
    return None


def _stranger(inputs: Inputs, found: Sequence[Tensor]) -> Exception:
    names = sorted({name for name, value in _named_tensors(inputs.forward) if any(value is tensor for tensor in found)})
    which = f"the tensor {listed(names)}" if names else f"a tensor of shape {list(found[0].shape)}"
    return complaint(
        f"{inputs.name} uses {which}, which requires a gradient and is no input",
        where=inputs.where,
        why="a custom gradient has gradients of its inputs: this tensor would silently get none",
        do="make it an input; or use its .detach(), if it is to have no gradient from here",
    )


def _named_tensors(function: Callable[..., Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a function names from outside, and those of the modules that it names."""
    for name, value in named_by(function):
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, nn.Module):
            yield from ((f"{name}.{path}", parameter) for path, parameter in value.named_parameters())
