"""Tensors that a forward uses without taking them as inputs: they would silently get no gradient.

A forward runs with grad mode off, so autograd can't tell. Its first call for some types of arguments is watched: an
operation on a tensor that requires a gradient, and that is neither an input nor made inside, marks what it returns,
and an output that is marked is refused. What is only looked at (a shape, a comparison, a log entry) marks no output.
What leaves torch (NumPy, a pointer) is not seen.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradwright.functions.custom_gradient.call import split
from gradwright.functions.custom_gradient.contract import Inputs
from gradwright.functions.custom_gradient.messages import complaint, listed
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.uncompiled import uncompiled
from gradwright.ground.outside import named_outside
from gradwright.ground.tensors import tensors_in

# Their results depend on no values that have a derivative.
_WITHOUT_DERIVATIVE = {
    torch.Tensor.detach,
    torch.detach,
    torch.Tensor.data.__get__,  # type: ignore[attr-defined]  # torch's stub calls `data` a tensor
    torch.Tensor.grad.__get__,  # type: ignore[union-attr]
}


@uncompiled
def watched_once(definition: Definition) -> tuple[Definition, list[Tensor]]:
    """The same, its forward watched when it runs for the first time; and what it will be found to use. With grad mode
    off nothing is refused."""
    inputs, done, refused = definition.inputs, False, torch.is_grad_enabled()
    found: list[Tensor] = []

    @functools.wraps(inputs.forward)
    @uncompiled
    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if done:
            return inputs.forward(*args, **kwargs)
        done = True
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        with _Watch(leaves, [tensor for _, tensor in _named_by(inputs.forward)]) as watch:
            result = inputs.forward(*args, **kwargs)
        outputs = [leaf for leaf in tree_leaves(split(result, inputs)[0]) if isinstance(leaf, Tensor)]
        found[:] = [stranger for output in outputs for stranger in watch.behind(output)]
        if found and refused:
            raise _stranger(inputs, found)
        return result

    return replace(definition, inputs=replace(inputs, forward=forward)), found


class _Watch(TorchFunctionMode):
    """``own``: what it may use, by id: inputs, and what was made inside. ``marked``: what is made of
    strangers, by id, with them. Tensors that torch.func wraps are strangers only where they are ``named``: those that
    a torch.func inside makes are not seen being made."""

    def __init__(self, leaves: Sequence[Tensor], named: Sequence[Tensor]) -> None:
        super().__init__()
        self.named = {id(tensor) for tensor in named}
        self.own = WeakValueDictionary({id(leaf): leaf for leaf in leaves})
        self.marked: dict[int, tuple[Tensor, list[Tensor]]] = {}  # the tensor is held: its id must not be another's

    @uncompiled
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        handed = list(tensors_in([args, kwargs or {}]))
        found = [stranger for tensor in handed for stranger in self.behind(tensor)]
        cut = func in _WITHOUT_DERIVATIVE or name.endswith("_like") or name.startswith("new_")
        written = handed[:1] if name == "__setitem__" else []
        for tensor in [*tensors_in(result), *written]:
            if not found or cut:
                self.own[id(tensor)] = tensor
            elif tensor.is_floating_point() or tensor.is_complex():
                self.marked[id(tensor)] = (tensor, found)
        return result

    def behind(self, tensor: Tensor) -> list[Tensor]:
        """The strangers that a tensor is made of."""
        if id(tensor) in self.marked:
            return self.marked[id(tensor)][1]
        strange = tensor.requires_grad and id(tensor) not in self.own
        return [tensor] if strange and (id(tensor) in self.named or not is_functorch_wrapped_tensor(tensor)) else []


def _stranger(inputs: Inputs, found: Sequence[Tensor]) -> Exception:
    names = sorted({name for name, value in _named_by(inputs.forward) if any(value is tensor for tensor in found)})
    which = f"the tensor {listed(names)}" if names else f"a tensor of shape {list(found[0].shape)}"
    return complaint(
        f"{inputs.name} uses {which}, which requires a gradient and is no input",
        where=inputs.where,
        why="a custom gradient has gradients of its inputs: this tensor would silently get none",
        do="make it an input; or use its .detach(), if it is to have no gradient from here",
    )


def _named_by(function: Callable[..., Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a function names from outside, and those of the modules that it names."""
    if isinstance(function, functools.partial):
        yield from _named_by(function.func)
        named: dict[str, Any] = {str(place): value for place, value in enumerate(function.args)} | function.keywords
    elif inspect.ismethod(function):
        named = {"self": function.__self__}
    elif inspect.isfunction(function):
        named = named_outside(function)
    else:
        named = {"self": function}
    for name, value in named.items():
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, nn.Module):
            yield from ((f"{name}.{path}", parameter) for path, parameter in value.named_parameters())
