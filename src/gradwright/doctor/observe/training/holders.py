"""Which variable in sight holds what is searched for: the frames of the user's, their variables, one step into objects.

Names are looked up, nothing of the user's is called. Asked only where something is wrong: a look at a frame's variables
keeps a copy of them until the frame is left (Python before 3.13).
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.errors.spots import own_nodes, parsed, place_of, scope_at, text_of
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, relative
from gradwright.ground.syntax import dotted

_FRAMES, _DEPTH = 8, 80
_VARIABLES, _ATTRIBUTES = 2000, 200
_FILLS = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault", "push"})


@dataclass(frozen=True)
class Held:
    """A variable: its name as the frame's text has it, what it stands for, where to look for the text that sets it."""

    name: str
    value: Any
    frame: FrameType
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Growing:
    """The statement by which a variable comes to hold more than it did."""

    location: Location
    text: str


def user_frames() -> Iterator[FrameType]:
    """The frames of the user's that run now, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    found = 0
    for _ in range(_DEPTH):
        if frame is None or found == _FRAMES:
            return
        if is_user_file(frame.f_code.co_filename):
            found += 1
            yield frame
        frame = frame.f_back


def in_sight() -> Iterator[Held]:
    """The variables of the user's frames, then the attributes of the objects among them, innermost frames first."""
    for frame in user_frames():
        names = list(frame.f_locals.items())[:_VARIABLES]
        for name, value in names:
            if not name.startswith("__"):
                yield Held(name, value, frame)
        for name, value in names:
            for attribute, inner in _attributes(value):
                file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
                yield Held(f"{name}.{attribute}", inner, frame, (file,) if isinstance(file, str) else ())


def _attributes(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)  # isinstance would run a proxy's code
    plain = (type, ModuleType, Tensor, torch.optim.Optimizer, dict, list, tuple, set, str, int, float, type(None))
    if issubclass(kind, plain) or (callable(value) and not issubclass(kind, torch.nn.Module)):
        return []
    try:
        fields = object.__getattribute__(value, "__dict__")
    except Exception:
        return []
    found = fields.items() if isinstance(fields, dict) else ()
    return [(name, inner) for name, inner in list(found)[:_ATTRIBUTES] if isinstance(name, str)]


def tensors_in(value: Any, most: int = 4096, depth: int = 3) -> list[Tensor]:
    """The tensors of a collection, of the collections in it, and of those; the latest ones where there are many."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple, deque, set)) or not depth:
        return []
    found: list[Tensor] = []
    for item in list(value)[-most:]:
        found += [item] if isinstance(item, Tensor) else tensors_in(item, 16, depth - 1)
    return found[-most:]


def grown_by(held: Held, *, collection: bool) -> Growing | None:
    """Where the text makes the variable from its own last value, or puts more into it."""
    names = {held.name, "self." + held.name.partition(".")[2]} if "." in held.name else {held.name}
    frame = held.frame
    file = frame.f_code.co_filename
    tree = parsed(file)
    if tree is None:
        return None
    scopes: list[tuple[ast.AST, str, Callable[[ast.AST], Iterator[ast.AST]]]] = []
    scopes.append((scope_at(tree, frame.f_lineno) if frame.f_code.co_name != "<module>" else tree, file, own_nodes))
    if "." in held.name:
        others = [(parsed(path), path) for path in (file, *held.files) if is_user_file(path)]
        scopes += [(other, path, ast.walk) for other, path in others if other is not None]
    for scope, path, nodes in scopes:
        for node in nodes(scope):
            if (_fills(node, names) if collection else _carries(node, names)) and _is_of(node, held.value):
                return Growing(place_of(node, path, relative(path)), text_of(node))
    return None


def _carries(node: ast.AST, names: set[str]) -> bool:
    """``total += loss``, ``hidden = f(hidden)``, ``sums["loss"] += loss``."""
    if isinstance(node, ast.AugAssign):
        return _target(node.target) in names
    if not isinstance(node, ast.Assign):
        return False
    targets = [item for target in node.targets for item in getattr(target, "elts", None) or [target]]
    return any(_target(item) in names for item in targets) and _reads(node.value, names)


def _fills(node: ast.AST, names: set[str]) -> bool:
    """``losses.append(loss)``, ``losses += [loss]``, ``losses[step] = loss``, ``sums["loss"] += loss``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _FILLS and _target(node.func.value) in names
    if isinstance(node, ast.Assign):
        stores = [target for target in node.targets if isinstance(target, ast.Subscript)]
        return any(_target(target) in names for target in stores) or _carries(node, names)
    return _carries(node, names)


def _is_of(node: ast.AST, value: Any) -> bool:
    """Not ``stats["steps"] += 1`` where ``stats["loss"]`` is what holds tensors with a graph."""
    target = (
        node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value
    if (
        not isinstance(value, dict)
        or not isinstance(target, ast.Subscript)
        or not isinstance(target.slice, ast.Constant)
    ):
        return True
    return any(one.grad_fn is not None for one in tensors_in([value.get(target.slice.value)]))


def _target(node: ast.AST) -> str:
    """``sums`` of ``sums["loss"]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return dotted(node)


def _reads(value: ast.AST, names: set[str]) -> bool:
    return any(isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in names for node in ast.walk(value))
