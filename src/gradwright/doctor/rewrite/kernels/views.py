"""Names of elements: ``v = x[i]`` is a view in torch and a number in the kernel. Where the two differ is declined."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.source_text import DeclinedError

Loop = ast.For | ast.While
Around = tuple[ast.stmt, ...]


class Views:
    """What the statements of one loop write into, and where its names are read; what the ``function`` around it writes
    into afterwards."""

    def __init__(self, loop: Loop, function: ast.FunctionDef) -> None:
        self.statements = list(_with_loops([loop], ()))
        self.writes = [
            (base, statement, around) for statement, around in self.statements for base in _written(statement)
        ]
        self.changed_in_place = {name for statement, _ in self.statements for name in _changed_in_place(statement)}
        self.loop = loop
        end = loop.end_lineno or loop.lineno
        self.later = {base for one, _ in _with_loops(function.body, ()) if one.lineno > end for base in _written(one)}

    def check_name(self, name: str, value: ast.expr, *, read_after: bool) -> None:
        """``name = value``, a tensor without an axis. Raises: DeclinedError."""
        if isinstance(value, ast.Name) and (name in self.changed_in_place or value.id in self.changed_in_place):
            raise DeclinedError(f"{name} and {value.id} are one tensor, which is changed in place")
        base = _base(value)
        if not base:
            return
        if name in self.changed_in_place:
            raise DeclinedError(f"{name} is a view of {base}, and is changed in place")
        writes = [(statement, around) for written, statement, around in self.writes if written == base]
        late = f"{name} is a view of {base}, of which elements change while {name} is used"
        if read_after and (writes or base in self.later):
            raise DeclinedError(late)
        if not writes:
            return
        ((own, own_loops),) = [
            (statement, around) for statement, around in self.statements if _assigns(statement, value)
        ] or [(self.loop, ())]
        for statement, around in self.statements:
            if statement is own or not _reads(statement, name):
                continue
            if statement.lineno <= own.lineno:
                raise DeclinedError(late)
            for write, write_loops in writes:
                between = own.lineno < write.lineno < statement.lineno
                again = [loop for loop in around if loop not in own_loops and loop in write_loops]
                if between or again:
                    raise DeclinedError(late)

    def check_kept(self, value: ast.expr) -> None:
        """A tensor without an axis is put into a list. Raises: DeclinedError."""
        if isinstance(value, ast.Name) and value.id in self.changed_in_place:
            raise DeclinedError(f"{value.id} is kept, and changed in place afterwards")
        if _base(value) in {base for base, _, _ in self.writes} - {""}:
            raise DeclinedError(f"{ast.unparse(value)} is kept, and may change afterwards")

    def check_swap(self, targets: list[ast.expr], values: list[ast.expr]) -> None:
        """``x[i], x[j] = x[j], x[i]`` does not swap elements of a tensor. Raises: DeclinedError."""
        into = {_base(one) for one in targets} - {""}
        if len(targets) > 1 and any(_base(value) in into for value in values):
            raise DeclinedError(
                "it swaps elements of a tensor, which are views: the second is read when it has changed"
            )


def may_be(value: ast.expr) -> Iterator[ast.expr]:
    """What the value may be itself, rather than computed from: ``x[i]`` of ``max(best, x[i])``."""
    if isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.BoolOp):
        parts = value.values
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("max", "min"):
        parts = value.args
    else:
        yield value
        return
    for part in parts:
        yield from may_be(part)


def _with_loops(statements: list[ast.stmt], around: Around) -> Iterator[tuple[ast.stmt, Around]]:
    for statement in statements:
        yield statement, around
        inside = (*around, statement) if isinstance(statement, ast.For | ast.While) else around
        for block in ("body", "orelse"):
            yield from _with_loops(getattr(statement, block, []), inside)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(statement):
        if field in ("body", "orelse"):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                yield from ast.walk(one)


def _base(node: ast.expr) -> str:
    """``x`` of ``x[i][j]``; "" for what is no element."""
    if not isinstance(node, ast.Subscript):
        return ""
    inner: ast.expr = node
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    return ast.unparse(inner) if isinstance(inner, ast.Name | ast.Attribute) else ""


def _written(statement: ast.stmt) -> Iterator[str]:
    for node in _own(statement):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield _base(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            yield _base(node.func.value) or ast.unparse(node.func.value)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _changed_in_place(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_") and isinstance(function.value, ast.Name):
            yield function.value.id


def _assigns(statement: ast.stmt, value: ast.expr) -> bool:
    return isinstance(statement, ast.Assign | ast.AnnAssign) and any(node is value for node in _own(statement))


def _reads(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in _own(statement)
    )
