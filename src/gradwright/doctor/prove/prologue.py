"""The statements above a region that say how its inputs hang together: sizes, settings, buffers, copies.

``n = x.shape[0]``, ``out = torch.zeros(n)``, ``y = x.clone()``, ``rows = []``: what they bind is no input of its own.
They run in every trial, so that sizes fit, a buffer is as fresh as it was, and a change may leave its creation out.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from gradwright.doctor.source.names import events, parameters
from gradwright.ground.syntax import dotted_names

Frame = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | ast.ClassDef

_SIZED = {"shape", "dtype", "device", "ndim"}
_COPIES = {"clone", "detach", "contiguous", "float", "double", "half", "item", "abs", "neg", "t", "view", "reshape"}
_COPIES |= {"exp", "log", "sqrt", "sum", "mean", "max", "min", "flatten", "unsqueeze", "squeeze", "to", "matmul"}
_SIZES = {"size", "dim", "numel", "stride", "element_size"}
_FUNCTIONS = {"len", "int", "float", "range", "min", "max", "abs", "list", "dict", "bool"}
_FRESH = {"zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "arange", "tensor"}
_FRESH |= {"eye", "new_zeros", "new_ones", "new_empty", "new_full", "linspace", "device", "Size", "as_tensor"}


@dataclass(frozen=True)
class _Block:
    """A block of statements that leads to the region, with the loops around it within the frame."""

    statements: Sequence[ast.stmt]
    loops: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Prologue:
    """``statements`` run in every trial; ``made``: what made a tensor that was written to since: it shows its shape."""

    statements: tuple[ast.stmt, ...] = ()
    made: tuple[tuple[str, ast.expr], ...] = ()


def prologue(frame: Frame, first_line: int, given: Mapping[str, object]) -> Prologue:
    """The statements of ``frame`` before ``first_line``, in order, that make names from ``given`` ones as said above.

    They are surely executed before the region, nothing binds their names or what they read in between, and what is no
    number is made in the same round of the loops around and neither looked at nor, like what it is made of, written to
    before the region.
    """
    numbers = {name for name, value in given.items() if isinstance(value, (int, float, torch.Size))}
    blocks = list(_around(frame.body, first_line))
    mine = list(events(frame.body, into_functions=False))
    binds = [(event.name, event.position[0]) for event in mine if event.kind in ("bind", "delete", "declare")]
    local = {name for name, _ in binds}
    if isinstance(frame, (ast.FunctionDef, ast.AsyncFunctionDef)):
        local |= set(parameters(frame))
    found: list[ast.stmt] = []
    shown: list[tuple[str, ast.expr]] = []
    made: set[str] = set()
    for block in blocks:
        between = [loop for loop in blocks[-1].loops if loop not in block.loops]
        for statement in block.statements:
            last = statement.end_lineno or statement.lineno
            if last >= first_line:
                break
            names, value = _bound(statement), getattr(statement, "value", None)
            if not names or not isinstance(value, ast.expr) or not _says_how(value):
                continue
            statement = _in_terms_of(statement, given, made)
            read = {event.name for event in events([statement]) if event.kind != "bind"}
            if not read.isdisjoint(names):
                continue  # x = x.clone(): what is given is the x afterwards
            lines = [line for name, line in binds if name in {*names, *read}]
            if any(last < line < first_line for line in lines) or any(_within(line, between) for line in lines):
                continue
            known = all(name in given or name in made or name not in local for name in read)
            apart = not between and not _touched(names, frame, last, first_line)
            apart = apart and not _written(read, block.statements, last, first_line)
            size = _is_size(value, numbers)
            if known and (size or apart):
                found.append(statement)
                numbers |= set(names) if size else set()
                made |= set(names)
            elif known and isinstance(given.get(names[0]), torch.Tensor) and _makes_memory(statement):
                shown.append((names[0], statement.value))  # type: ignore[attr-defined]  # an assignment
    return Prologue(tuple(found), tuple(shown))


def _makes_memory(statement: ast.stmt) -> bool:
    """Whether it is ``y = torch.zeros(n, m)`` or ``y = x.clone()``."""
    value = getattr(statement, "value", None)
    name = getattr(value.func, "attr", "") if isinstance(value, ast.Call) else ""
    return len(_bound(statement)) == 1 and name in _FRESH | {"clone"}


def _in_terms_of(statement: ast.stmt, given: Mapping[str, object], made: Collection[str]) -> ast.stmt:
    """``torch.zeros(n, dtype=x.dtype)`` where ``x`` is not given: the dtype and device of something given that agrees.

    What agreed in the run only by chance is still a dtype that the buffer may have.
    """
    (name, *others), value = _bound(statement), statement.value if isinstance(statement, ast.Assign) else None
    like = given.get(name)
    if others or value is None or not isinstance(like, torch.Tensor):
        return statement
    agree = [
        key
        for key, one in given.items()
        if key != name and isinstance(one, torch.Tensor) and (one.dtype, one.device) == (like.dtype, like.device)
    ]
    held = [
        node
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute)
        and node.attr in ("dtype", "device")
        and isinstance(node.value, ast.Name)
        and node.value.id not in {*given, *made, "torch"}
    ]
    if not held or not agree:
        return statement
    statement = copy.deepcopy(statement)
    unknown = {node.value.id for node in held if isinstance(node.value, ast.Name)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and node.attr in ("dtype", "device") and isinstance(node.value, ast.Name):
            node.value.id = agree[0] if node.value.id in unknown else node.value.id
    return statement


def _around(body: Sequence[ast.stmt], line: int) -> Iterator[_Block]:
    """The blocks that lead to a line, outermost first."""
    loops: tuple[ast.stmt, ...] = ()
    block: Sequence[ast.stmt] | None = body
    while block is not None:
        yield _Block(block, loops)
        holder = next((one for one in block if one.lineno < line <= (one.end_lineno or 0)), None)
        if isinstance(holder, (ast.For, ast.While, ast.AsyncFor)):
            loops = (*loops, holder)
        insides = (getattr(holder, name, None) for name in ("body", "orelse", "finalbody"))
        block = next((one for one in insides if one and one[0].lineno <= line <= (one[-1].end_lineno or 0)), None)


def _within(line: int, loops: Sequence[ast.stmt]) -> bool:
    return any(loop.lineno <= line <= (loop.end_lineno or 0) for loop in loops)


def _bound(statement: ast.stmt) -> list[str]:
    """The names of a plain assignment; none of another statement."""
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target] if statement.value else []
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return []
    names: list[str] = []
    for target in targets:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if not all(isinstance(part, ast.Name) for part in parts):
            return []
        names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


def _is_size(node: ast.expr, numbers: Collection[str]) -> bool:
    """Whether it is a number or a shape for sure, which nobody can change. ``numbers``: names of such."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in numbers
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZED or (dotted_names(node) or [""])[0] == "math"
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name in _SIZES | {"len"} or (name in _FUNCTIONS and all(_is_size(item, numbers) for item in node.args))
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Tuple)):
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return all(_is_size(part, numbers) for part in parts)
    return False


def _says_how(node: ast.expr) -> bool:
    """Whether an expression is made of constants, sizes and dtypes, or makes a fresh buffer."""
    if isinstance(node, (ast.Constant, ast.Name)):
        return isinstance(node, ast.Constant)
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZED or (dotted_names(node) or [""])[0] in ("torch", "math", "np", "self")
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_part(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.BinOp):
        return _part(node.left) and _part(node.right)
    if isinstance(node, ast.UnaryOp):
        return _part(node.operand)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _part(node.value) and all(isinstance(part, ast.Slice) or _part(part) for part in parts)
    if isinstance(node, ast.Compare):
        return _part(node.left) and all(_part(one) for one in node.comparators)
    if isinstance(node, ast.Call):
        name = (dotted_names(node.func) or [getattr(node.func, "attr", "")])[-1]
        if name in _COPIES and isinstance(node.func, ast.Attribute) and not _part(node.func.value):
            return False
        return name in _COPIES | _SIZES | _FRESH | _FUNCTIONS and all(
            _part(item.value if isinstance(item, ast.Starred) else item)
            for item in [*node.args, *(keyword.value for keyword in node.keywords)]
        )
    return False


def _part(node: ast.expr) -> bool:
    """A name is right as a part: ``n - 1``, ``torch.zeros(n)``, ``torch.zeros_like(x)``, ``len(x)``."""
    return isinstance(node, ast.Name) or _says_how(node)


def _touched(names: Sequence[str], frame: Frame, after: int, first_line: int) -> bool:
    """Whether anything between a statement and the region so much as reads what it made."""
    return any(
        event.name in names and event.kind != "bind" and after < event.position[0] < first_line
        for event in events(frame.body)
    )


def _written(names: Collection[str], block: Sequence[ast.stmt], after: int, first_line: int) -> bool:
    """Whether anything between a statement and the region writes into one of ``names``."""
    for node in (inner for statement in block for inner in ast.walk(statement)):
        if not after < getattr(node, "lineno", 0) < first_line:
            continue
        held: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            held = node.value
        elif isinstance(node, ast.AugAssign):
            held = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            held = node.func.value
        if (dotted_names(held) or [""])[0] in names if held is not None else False:
            return True
    return False
