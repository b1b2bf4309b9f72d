"""The public names: each loads, and the examples in its docstring give what they say; which ones no step runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smoke_steps.step import Step

DOORS = {
    "gw": "gradwright",
    "losses": "gradwright.losses",
    "training": "gradwright.training",
    "penalties": "gradwright.penalties",
    "testing": "gradwright.testing",
}


def list_names() -> list[str]:
    """Every public name, as the steps write it: ``gw.check``, ``losses.huber_loss``. Rooms and the version aside."""
    return [f"{short}.{name}" for short, door in DOORS.items() for name in read_all(door) if name not in _NOT_TRIED]


_NOT_TRIED = {"__version__", *DOORS}


def read_all(door: str) -> list[str]:
    return list(importlib.import_module(door).__all__)


def load(name: str) -> Any:
    """What stands behind ``gw.check``."""
    short, _, own = name.partition(".")
    return getattr(importlib.import_module(DOORS[short]), own)


def find_examples(name: str) -> list[doctest.DocTest]:
    """The examples in the docstring of a public name."""
    thing = load(name)
    finder = doctest.DocTestFinder(recurse=False)
    return [found for found in finder.find(thing, name, sys.modules[thing.__module__]) if found.examples]


def run_examples(name: str) -> None:
    """Raises AssertionError, with what was expected and what came. An ellipsis stands for anything, as under pytest."""
    told: list[str] = []
    for examples in find_examples(name):
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(examples, out=told.append)
    if told:
        raise AssertionError("".join(told))


def steps_of_names() -> Iterator[Step]:
    """One a public name: load it, run its examples."""
    for name in list_names():
        yield Step(f"{name}: its examples", lambda name=name: run_examples(name))  # type: ignore[misc]


def find_names_without_step(rooms: list[types.ModuleType]) -> list[str]:
    """Public names that have no example and that no step in these modules mentions."""
    mentioned = {name for room in rooms for name in read_mentions(Path(inspect.getfile(room)).read_text("utf-8"))}
    return [name for name in list_names() if name not in mentioned and not find_examples(name)]


def read_mentions(source: str) -> set[str]:
    """What a program takes from the doors, as they are named in it.

    >>> sorted(read_mentions("assert gw.check(f, x) and losses.HuberLoss() and other.check"))
    ['gw.check', 'losses.HuberLoss']
    """
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in DOORS
    }
