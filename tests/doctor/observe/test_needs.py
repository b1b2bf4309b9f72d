"""What a looker looks up in ``ground/torch_versions`` it says that it needs: that is tried before the looker is on."""

from __future__ import annotations

import ast
import importlib
from functools import cache

import pytest
from tests.ground.torch_versions.test_names import names_by_capability, trees

from gradwright.doctor.observe.hand_updates import HandUpdateWatch
from gradwright.doctor.observe.looker import Looker
from gradwright.doctor.observe.lookers import list_files, lookers_in

LOOKERS = [HandUpdateWatch, *(kind for file in list_files() for kind in lookers_in(file))]
ROOM = "gradwright.ground.torch_versions."
ROOMS = ("gradwright.doctor.observe", "gradwright.ground")


@cache
def imports_of(module: str) -> frozenset[tuple[str, str]]:
    """(module, name) of all that a module of ours imports."""
    file = module.removeprefix("gradwright.").replace(".", "/")
    tree = trees().get(f"{file}.py") or trees().get(f"{file}/__init__.py")
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)] if tree else []
    return frozenset((node.module or "", alias.name) for node in imports for alias in node.names)


def taken_from_the_room(module: str, seen: set[str]) -> set[tuple[str, str]]:
    """The same of what it imports from the rooms that a looker stands on."""
    if module in seen:
        return set()
    seen.add(module)
    found = {(home, name) for home, name in imports_of(module) if home.startswith(ROOM)}
    for home, name in imports_of(module):
        if home.startswith(ROOMS) and not home.startswith(ROOM):
            found |= taken_from_the_room(home, seen) | taken_from_the_room(f"{home}.{name}", seen)
    return found


@cache
def capability_of_things() -> dict[int, str]:
    return {id(thing): one.name for one, names in names_by_capability() for thing, _, _ in names}


@pytest.mark.parametrize("kind", LOOKERS, ids=lambda kind: kind.__name__)
def test_a_looker_says_what_it_looks_up(kind: type[Looker]) -> None:
    taken = [getattr(importlib.import_module(home), name) for home, name in taken_from_the_room(kind.__module__, set())]
    looked_up = {capability_of_things()[id(thing)] for thing in taken if id(thing) in capability_of_things()}
    assert looked_up <= {one.name for one in kind.needs}


def test_what_is_looked_up_is_seen() -> None:
    taken = taken_from_the_room("gradwright.doctor.observe.lookers.host_syncs", set())
    assert (f"{ROOM}levels", "are_functorch_transforms_active") in taken
    assert (f"{ROOM}modes", "push_on_torch_function_stack") in taken  # by observe.training.one_step
