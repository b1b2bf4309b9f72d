"""What a function uses from outside of itself, and what the result of a torch function is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from gradwright.ground.tensors import tensors_in

_DEPTH = 4  # of lists in lists, as far as they are opened
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))

# Their results depend on no values that have a derivative.
_WITHOUT_DERIVATIVE = {
    torch.Tensor.detach,
    torch.detach,
    torch.Tensor.data.__get__,  # type: ignore[attr-defined]  # torch's stub calls `data` a tensor
    torch.Tensor.grad.__get__,  # type: ignore[union-attr]
}


def named_outside(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals and the closed-over variables that its code names, as far as they have a value yet.

    (``inspect.getclosurevars`` raises where one has none.)

    >>> factor = 3
    >>> named_outside(lambda x: factor * x)
    {'factor': 3}
    """
    target = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(target, FunctionType):
        return {}
    known = target.__globals__
    return {name: known[name] for name in target.__code__.co_names if name in known} | _closed_over(target)


def _closed_over(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # empty, up to now
            found[name] = cell.cell_contents
    return found


def named_by(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function uses without being handed it, each with a name for messages: what it names from outside, what it
    is bound to, what it is a partial of; the same of the functions that it closes over or wraps.

    Lists, tuples and dicts are opened. The object of a method, and a module, stand for themselves and for their
    attributes; what a module registers (parameters, buffers, modules) is its own to tell.

    >>> factors = {"a": [2, 3]}
    >>> dict(named_by(lambda x: factors["a"][0] * x))
    {"factors['a'][0]": 2, "factors['a'][1]": 3}
    """
    yield from _named_by(function, set())


def _named_by(function: Any, seen: set[FunctionType]) -> Iterator[tuple[str, Any]]:
    named: dict[str, Any] = {}
    inner: list[Any] = [function.__wrapped__] if hasattr(function, "__wrapped__") else []  # by functools.wraps
    if isinstance(function, partial):
        inner.append(function.func)
        named = {str(place): value for place, value in enumerate(function.args)} | function.keywords
    elif isinstance(function, MethodType):
        inner.append(function.__func__)
        owner = function.__self__
        named = {"self": owner}
        if not isinstance(owner, nn.Module):
            named |= {f"self.{name}": value for name, value in _attributes(owner)}
    elif isinstance(function, FunctionType):
        if function in seen:
            return
        seen.add(function)
        inner += [
            value for value in _closed_over(function).values() if isinstance(value, (FunctionType, MethodType, partial))
        ]
        named = named_outside(function)
    else:  # an object that can be called
        call = getattr(function, "forward" if isinstance(function, nn.Module) else "__call__", None)
        inner += [call] if isinstance(call, MethodType) else []
    for each in inner:
        yield from _named_by(each, seen)
    for name, value in named.items():
        yield from _opened(name, value, _DEPTH)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Those of its own, without a module's registers."""
    for name, value in getattr(owner, "__dict__", {}).items():
        if not (isinstance(owner, nn.Module) and name in _OF_EVERY_MODULE):
            yield name, value


def _opened(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth and isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _opened(f"{name}[{place}]", item, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from _opened(f"{name}[{key!r}]", item, depth - 1)
    else:
        yield name, value
        if depth and isinstance(value, nn.Module):
            for attribute, item in _attributes(value):
                yield from _opened(f"{name}.{attribute}", item, depth - 1)


def sources(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that the result of a torch function is made of. Not those that it detaches, nor those of which it
    takes shape, dtype or device alone.

    >>> x, w = torch.ones(2), torch.ones(2)
    >>> [tensor is x for tensor in sources(torch.Tensor.view_as, (x, w), {})]
    [True]
    >>> sources(torch.zeros_like, (w,), {})
    []
    """
    name = getattr(function, "__name__", "")
    if function in _WITHOUT_DERIVATIVE or name.endswith("_like") or name.startswith("new_"):
        return []
    handed = list(tensors_in([args, kwargs]))
    return handed[:1] if name.endswith("_as") or name in ("to", "resize_as_") else handed
