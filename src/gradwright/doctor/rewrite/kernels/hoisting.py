"""Arrays that every round of a loop makes anew are made once, before the loops, where no round sees another's.

NOTE [two arrays that take turns]
``new = np.empty(...)``, filled, ``v = new``: the state of the next round, computed from that of this one. Two arrays,
made once, take turns: after ``v = new`` the next round fills the other one, which ``v`` is not. Nobody else may be left
with what ``v`` was: of ``v`` too, only elements are named.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class _Made:
    """``name = np.empty(sizes, dtype)`` in a block of a loop."""

    block: list[ast.stmt]
    statement: ast.Assign

    @property
    def name(self) -> str:
        return ast.unparse(self.statement.targets[0])

    @property
    def arguments(self) -> list[ast.expr]:
        assert isinstance(self.statement.value, ast.Call)
        return self.statement.value.args

    @property
    def sizes(self) -> list[ast.expr]:
        shape = self.arguments[0]
        return shape.elts if isinstance(shape, ast.Tuple) else [shape]


def hoisted(
    statements: list[ast.stmt], arguments: Collection[str], kept: Collection[str], fresh: Callable[[str], str]
) -> list[ast.stmt]:
    """``arguments``: the kernel's, whose sizes are known before the loops; ``kept``: names that are read afterwards;
    ``fresh`` gives a new name.

    Only elements of such an array are ever named, so that nothing of a round outlives it; and a round fills what it
    reads, as it would have to in an empty array of its own.

    >>> kernel = "for t in range(n):\\n    row = np.empty(x.shape[1], x.dtype)\\n    row[0] = t\\n    y[t] = row[0]"
    >>> print(ast.unparse(ast.Module(hoisted(ast.parse(kernel).body, {"x", "y", "n"}, (), str), [])))
    row = np.empty(x.shape[1], x.dtype)
    for t in range(n):
        row[0] = t
        y[t] = row[0]
    """
    whole = ast.Module(statements, [])
    made = list(_made_in_loops(whole))
    bound = [node.id for node in ast.walk(whole) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    own = [one for one in made if bound.count(one.name) == 1 and one.name not in (*arguments, *kept)]
    known = [one for one in own if _known(one, whole, made, arguments)]
    found = [(one, _loose(whole, one.name, len(one.sizes))) for one in known]
    turns = [(one, _becomes(one, whole, loose) if loose else None) for one, loose in found]
    first: list[ast.stmt] = []
    for (one, becomes), (_, loose) in zip(turns, found, strict=True):
        if loose and becomes is None:
            continue
        first.append(one.statement)
        if becomes is not None:
            other = fresh(f"other_{ast.unparse(becomes.targets[0])}")
            first.append(_line(f"{other} = {ast.unparse(one.statement.value)}"))
            one.block.insert(one.block.index(becomes) + 1, _line(f"{one.name}, {other} = {other}, {one.name}"))
        one.block.remove(one.statement)
    return [*first, *statements]


def _line(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def _made_in_loops(whole: ast.Module) -> Iterator[_Made]:
    for loop in whole.body:
        if not isinstance(loop, ast.For | ast.While):
            continue
        for block in _blocks(loop):
            for one in block:
                if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and _is_empty(one.value):
                    yield _Made(block, one)


def _blocks(loop: ast.stmt) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(loop):
        if isinstance(node, ast.For | ast.While | ast.If):
            yield node.body
            yield node.orelse


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "np.empty"


# --- what is known before the loops ----------------------------------------------------------------------------------


def _known(one: _Made, whole: ast.Module, made: Sequence[_Made], arguments: Collection[str]) -> bool:
    """Whether its sizes are numbers as written, or axes of arguments (then they are no less than 0), and its dtype too:
    of arguments that the loops bind to nothing of another shape or dtype."""
    if not all(isinstance(size, ast.Constant) or _is_axis(size) for size in one.sizes):
        return False
    read = [node for part in one.arguments for node in ast.walk(part) if isinstance(node, ast.Attribute)]
    pairs = {(ast.unparse(node.value), node.attr) for node in read} - {("np", node.attr) for node in read}
    return all(name in arguments and _stays(name, what, whole, made) for name, what in pairs)


def _is_axis(size: ast.expr) -> bool:
    """``x.shape[0]``"""
    return isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape"


def _stays(name: str, what: str, whole: ast.Module, made: Sequence[_Made]) -> bool:
    """Whether all that the loops bind to the name is made with its very shape, or its dtype."""
    names = [one.name for one in made]
    for node in ast.walk(whole):
        if not _binds(node, name):
            continue
        source = node.value.id if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) else ""
        if names.count(source) != 1 or not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            return False
        value = made[names.index(source)]
        axes = [f"{name}.shape[{axis}]" for axis in range(len(value.sizes))]
        same = [ast.unparse(size) for size in value.sizes] == axes
        if not (same if what == "shape" else ast.unparse(value.arguments[-1]) == f"{name}.{what}"):
            return False
    return True


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a statement binds the name by itself, not by the statements in it."""
    targets = [*getattr(node, "targets", ()), *([node.target] if hasattr(node, "target") else ())]
    stored = (one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return any(one.id == name and isinstance(one.ctx, ast.Store) for one in stored)


# --- who else may see it ---------------------------------------------------------------------------------------------


def _loose(whole: ast.Module, array: str, axes: int) -> list[ast.Name]:
    """Where the array itself is read, rather than an element of it, or its shape or dtype."""
    fine = set()
    for node in ast.walk(whole):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if len(indices) == axes and not any(isinstance(one, ast.Slice) for one in indices):
                fine.add(id(node.value))
        elif isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype"):
            fine.add(id(node.value))
    return [
        node
        for node in ast.walk(whole)
        if isinstance(node, ast.Name) and node.id == array and isinstance(node.ctx, ast.Load) and id(node) not in fine
    ]


def _becomes(one: _Made, whole: ast.Module, loose: Sequence[ast.Name]) -> ast.Assign | None:
    """``v = new`` in the block in which ``new`` is made and filled, where it is read no more and only elements of ``v``
    are named: see NOTE [two arrays that take turns]."""
    after = one.block[one.block.index(one.statement) + 1 :]
    for at, statement in enumerate(after):
        if not isinstance(statement, ast.Assign) or statement.value not in loose or len(loose) != 1:
            continue
        (target,) = statement.targets
        between = [node for here in after[: at + 1] for node in ast.walk(here)]
        everywhere = [node for node in ast.walk(whole) if isinstance(node, ast.Name) and node.id == one.name]
        inside = sum(node in between for node in everywhere) == len(everywhere) - 1
        if isinstance(target, ast.Name) and inside and not _loose(whole, target.id, len(one.sizes)):
            return statement
    return None
