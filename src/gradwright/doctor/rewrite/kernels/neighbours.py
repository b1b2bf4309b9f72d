"""Single elements and numbers that are set right before the loop or right after it: they go into the kernel with it.

An element read or set by torch costs microseconds, as much as thousands of the kernel's steps.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from gradwright.doctor.rewrite.kernels.views import Loop
from gradwright.doctor.rewrite.loops.indices import dots
from gradwright.doctor.rewrite.loops.nodes import is_none
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.source.names import events
from gradwright.doctor.source.seen import Seen

MOST = 3
Neighbours = tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]]


def choices(source: SourceText, function: ast.FunctionDef, loop: Loop, seen: Seen) -> Iterator[Neighbours]:
    """What may go along, before the loop and after it: both, one of the two, nothing."""
    block = next(
        block
        for parent in ast.walk(function)
        for field in ("body", "orelse", "finalbody", "handlers")
        if isinstance(block := getattr(parent, field, None), list) and loop in block
    )
    at = block.index(loop)
    before = _near(source, loop, _before(block[:at], loop, seen)[::-1])[::-1]
    after = _near(source, loop, _after(block[at + 1 :], loop, seen))
    yield from dict.fromkeys([(before, after), (before, ()), ((), after), ((), ())])


def _near(source: SourceText, loop: Loop, statements: tuple[ast.stmt, ...]) -> tuple[ast.stmt, ...]:
    """Those with nothing but empty lines between them and the loop: a comment stays where it is."""
    near: list[ast.stmt] = []
    for one in statements:
        upper, lower = sorted([(near or [loop])[-1], one], key=lambda node: node.lineno)
        if any(line.strip() for line in source.lines[upper.end_lineno or upper.lineno : lower.lineno - 1]):
            break
        near.append(one)
    return tuple(near)


def _before(block: list[ast.stmt], loop: Loop, seen: Seen) -> tuple[ast.stmt, ...]:
    taken: list[ast.stmt] = []
    for at in range(len(block) - 1, max(len(block) - 1 - MOST, -1), -1):
        one = block[at]
        bound = {event.name for event in events(taken, into_functions=False) if event.kind == "bind"}
        if not _in_own_lines([*block[:at][-1:], one, (taken or [loop])[0]]) or _names(one) & bound:
            break
        begins = _begins_a_number(one, loop, seen) and not _names(one) & _written(taken)
        if not begins and not _sets_an_element(one, seen):
            break
        taken.insert(0, one)
    return tuple(taken)


def _after(block: list[ast.stmt], loop: Loop, seen: Seen) -> tuple[ast.stmt, ...]:
    taken: list[ast.stmt] = []
    bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}
    for at, one in enumerate(block[:MOST]):
        around = [(taken or [loop])[-1], one, *block[at + 1 : at + 2]]
        if not _in_own_lines(around) or not _sets_an_element(one, seen):
            break
        if taken and _names(one) & bound:
            break  # it may be a view of what was just set
        taken.append(one)
    return tuple(taken)


def _in_own_lines(statements: list[ast.stmt]) -> bool:
    return all((one.end_lineno or one.lineno) < other.lineno for one, other in itertools.pairwise(statements))


def _sets_an_element(node: ast.stmt, seen: Seen) -> bool:
    """``y[0] = x[0]``"""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AugAssign):
        target = node.target
    else:
        return False
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return False
    value = seen.live_ins.get(target.value.id)
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    if value is None or value.tensor is None or len(value.tensor.shape) != len(parts):
        return False
    return not any(isinstance(one, ast.Slice) or is_none(one) or dots(one) for one in parts)


def _begins_a_number(node: ast.stmt, loop: Loop, seen: Seen) -> bool:
    """``carry = torch.zeros(())``, a real that the loop goes on with and never changes in place."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return False
    name = node.targets[0].id
    value = seen.live_ins.get(name)
    if value is None or name in _names(node.value):
        return False
    real = value.type == "float" if value.tensor is None else not value.tensor.shape and "float" in value.tensor.dtype
    stores = [one for one in ast.walk(loop) if isinstance(one, ast.Name) and one.id == name]
    stores = [one for one in stores if isinstance(one.ctx, ast.Store)]
    in_place: list[ast.expr] = [one.target for one in ast.walk(loop) if isinstance(one, ast.AugAssign)]
    in_place += [
        one.func.value
        for one in ast.walk(loop)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr.endswith("_")
    ]
    changed = any(isinstance(one, ast.Name) and one.id == name for one in in_place)
    return real and bool(stores) and not changed


def _written(statements: list[ast.stmt]) -> set[str]:
    """Tensors of which elements are set: what was read of them before is a view, and changes."""
    elements = [node for one in statements for node in ast.walk(one) if isinstance(node, ast.Subscript)]
    return {name for one in elements if isinstance(one.ctx, ast.Store) for name in _names(one.value)}


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
