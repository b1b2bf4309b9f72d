"""What the names in a Python function are bound to outside of it: looked up, and kept so that it can be compared.

NOTE [Read at definition]: numbers that a function closes over are read when the formula is defined, as the default of a
parameter is. A later change of them makes another formula of the next definition, and nothing of this one.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import FunctionType, ModuleType


class Unbound(Exception):
    """A name, or an attribute of a module, that is not there; or an attribute of something else."""


@dataclass(frozen=True)
class Lookup:
    owner: FunctionType | None  # None: the function that is read; else one that it calls
    path: tuple[str, ...]  # ("F", "softplus"); (): the function itself
    found: object


@dataclass
class Lookups:
    """All that was looked up while a function was read."""

    root: FunctionType
    made: list[Lookup] = field(default_factory=list)

    def find(self, owner: FunctionType, path: tuple[str, ...]) -> object:
        """Raises Unbound."""
        found = bound_to(owner, path)
        self.made.append(Lookup(None if owner is self.root else owner, path, found))
        return found


def are_as_they_were(lookups: Sequence[Lookup], root: FunctionType) -> bool:
    """Does everything mean what it did, for a function of the same code?"""
    try:
        return all(_same(bound_to(lookup.owner or root, lookup.path), lookup.found) for lookup in lookups)
    except Unbound:
        return False


def bound_to(function: FunctionType, path: tuple[str, ...]) -> object:
    """What a dotted name in a function is bound to; its code and defaults for no name at all. Only attributes of
    modules are followed: those of other objects may run code."""
    if not path:
        keywords = function.__kwdefaults__ or {}
        return (function.__code__, *(function.__defaults__ or ()), *keywords, *keywords.values())
    first, *attributes = path
    thing = _named(function, first)
    for attribute in attributes:
        if not isinstance(thing, ModuleType) or attribute not in vars(thing):
            raise Unbound
        thing = vars(thing)[attribute]
    return thing


def _named(function: FunctionType, name: str) -> object:
    if name in function.__code__.co_freevars:
        assert function.__closure__ is not None
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:
            raise Unbound from None
    for names in (function.__globals__, vars(builtins)):
        if name in names:
            return names[name]
    raise Unbound


def _same(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if a is b:
        return True
    # Numbers by value, 0.0 and -0.0, 1 and True told apart; names of keywords too.
    return type(a) is type(b) and isinstance(a, (Real, str)) and repr(a) == repr(b)
