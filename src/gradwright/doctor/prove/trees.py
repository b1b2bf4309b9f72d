"""What a call is given and what it leaves behind, as trees: lists, tuples, dictionaries, objects; tensors within them.

NOTE [copies keep identity]: what was one object before is one object in the copy, and tensors that shared memory still
do. An in-place write to one of them shows in the others, as it did in the run.
"""

from __future__ import annotations

import collections
import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

DEPTH = 8
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.Size)
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_ATOMS = (str, bytes, bool, complex, range, slice, type(None), type(Ellipsis), *_OF_TORCH, *_CODE)
_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}
_TABLES_OF_MODULES = ("_parameters", "_buffers", "_modules")


class CannotCopyError(Exception):
    """A value that can't be copied, so that nothing may be tried with it."""


def is_real_tensor(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def named_leaves(names: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every tensor, number and string in the trees, with the expression that reaches it; containers by their length.

    >>> for name, leaf in named_leaves(["x", "state"], [1.5, {"h": [2, 3]}]):
    ...     print(name, "=", leaf)
    x = 1.5
    the type and length of state = dict of 1
    the type and length of state['h'] = list of 2
    state['h'][0] = 2
    state['h'][1] = 3
    """
    seen: set[int] = set()
    for name, value in zip(names, values, strict=True):
        yield from _leaves(name, value, DEPTH, seen)


def _leaves(name: str, value: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    inside = None if isinstance(value, Tensor) else _inside(value)
    if inside is None:
        yield name, value
        return
    if id(value) in seen or not depth:
        return  # a cycle, or something that is listed already
    seen.add(id(value))
    if not isinstance(value, (list, tuple, dict)):
        yield from _attributes(name, inside, depth, seen)
        return
    yield f"the type and length of {name}", f"{type(value).__name__} of {len(value)}"
    for key, item in inside:
        yield from _leaves(f"{name}[{key!r}]", item, depth - 1, seen)


def _attributes(name: str, inside: Sequence[tuple[Any, Any]], depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for key, item in inside:
        yield from _leaves(f"{name}.{key}", item, depth - 1, seen)


def _inside(value: Any) -> Sequence[tuple[Any, Any]] | None:
    """The parts of a container or object by key or attribute; None of what has none."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if isinstance(value, collections.deque):
        return list(enumerate(value))
    if isinstance(value, torch.nn.Module):
        own = [pair for table in _TABLES_OF_MODULES for pair in getattr(value, table).items()]
        return own + [(key, item) for key, item in vars(value).items() if key not in _OF_MODULES]
    if isinstance(value, (*_ATOMS, int, float)) or not hasattr(value, "__dict__"):
        return None
    return list(vars(value).items())


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """Every tensor in the trees, each once, in order."""
    found: dict[int, Tensor] = {}
    for _, leaf in named_leaves([""] * len(values), values):
        if isinstance(leaf, Tensor):
            found.setdefault(id(leaf), leaf)
    return list(found.values())


def tensor_names(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    """A name for each of ``tensors(values)``."""
    found: dict[int, str] = {}
    for name, leaf in named_leaves(names, values):
        if isinstance(leaf, Tensor):
            found.setdefault(id(leaf), name)
    return list(found.values())


def rebuilt(
    values: Sequence[Any],
    change: Callable[[int, Tensor], Any],
    number: Callable[[int], int] | None = None,
    items: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
) -> tuple[Any, ...]:
    """Copies of the trees with the ``i``-th of ``tensors(values)`` replaced by ``change(i, tensor)``.

    ``number``: what becomes of an int; ``items``: of the items of a list or tuple, before each is copied. See NOTE
    [copies keep identity]. Raises: CannotCopyError, naming the type.
    """
    memo: dict[int, Any] = {id(tensor): change(index, tensor) for index, tensor in enumerate(tensors(values))}
    keep = list(values)  # so that no id in memo is given to something new
    return tuple(_rebuilt(value, memo, number, items or list) for value in keep)


def _rebuilt(
    value: Any,
    memo: dict[int, Any],
    number: Callable[[int], int] | None,
    items: Callable[[Sequence[Any]], Sequence[Any]],
) -> Any:
    if isinstance(value, Tensor):
        return memo[id(value)]
    if type(value) is int:
        return number(value) if number else value
    if isinstance(value, (*_ATOMS, float, int)):
        return value
    if id(value) in memo:
        return memo[id(value)]
    if type(value) is list:
        new: list[Any] = []
        memo[id(value)] = new
        new.extend(_rebuilt(item, memo, number, items) for item in items(value))
        return new
    if type(value) is tuple:
        return tuple(_rebuilt(item, memo, number, items) for item in items(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuilt(item, memo, number, items) for item in value))
    if type(value) is dict:
        memo[id(value)] = table = {}
        table.update({key: _rebuilt(item, memo, number, items) for key, item in value.items()})
        return table
    return _deep(value, memo, number)


def _deep(value: Any, memo: dict[int, Any], number: Callable[[int], int] | None) -> Any:
    """An object and all that it holds, by ``copy.deepcopy``, with our tensors in the place of its own."""
    for part in _shared_parts(value):
        memo.setdefault(id(part), part)
    try:
        new = copy.deepcopy(value, memo)
    except Exception as error:  # whatever a class does when it is copied
        raise CannotCopyError(f"a {type(value).__name__} can't be copied, so nothing is tried with it") from error
    if number:
        for holder in _holders(new):
            for key, item in list(vars(holder).items()):
                if type(item) is int and key not in _OF_MODULES:
                    vars(holder)[key] = number(item)
    return new


def _shared_parts(value: Any) -> Iterator[Any]:
    """What a copy holds as it is: modules of Python, which can't be copied."""
    for holder in _holders(value):
        for item in vars(holder).values():
            if isinstance(item, types.ModuleType):
                yield item


def _holders(value: Any) -> Iterator[Any]:
    """The object and the objects in it."""
    stack, seen = [(value, DEPTH)], set()
    while stack:
        one, depth = stack.pop()
        inside = None if isinstance(one, Tensor) else _inside(one)
        if inside is None or id(one) in seen or not depth:
            continue
        seen.add(id(one))
        if hasattr(one, "__dict__"):
            yield one
        stack.extend((item, depth - 1) for _, item in inside)
