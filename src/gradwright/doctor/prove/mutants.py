"""Faulty twins of a candidate: each changes one thing on the lines that the candidate changed.

A proof that lets one of them pass would let a wrong candidate pass as well.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LIMIT = 40

SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
# Faults of a whole result; `_` stands for it.
FAULTY_RESULTS = (
    "-(_)",
    "(_) * 1.5",
    "(_) + 1",
    "(_) * 0",
    "(_).transpose(-1, -2)",
    "(_).roll(1, 0)",
    "(_).detach()",
    "(_).abs()",
    "(_).mean() + 0 * (_)",
    "(_).half()",
    "(_)[:1]",
)


@dataclass(frozen=True)
class Mutant:
    """``definition`` is the class with the fault, ``what`` the fault in words."""

    what: str
    definition: ast.ClassDef


def mutants(definition: ast.ClassDef, lines: Sequence[int], limit: int = LIMIT) -> Iterator[Mutant]:
    """Up to ``limit`` mutants of the statements that stand on ``lines``, spread evenly over all there are."""
    wanted = frozenset(lines)
    places = [
        (index, what, new)
        for index, node in enumerate(ast.walk(definition))
        for what, new in _faults(node, wanted, definition)
    ]
    step = max(1.0, len(places) / limit)
    for turn in range(min(limit, len(places))):
        index, what, new = places[int(turn * step)]
        twin = copy.deepcopy(definition)
        old = next(node for position, node in enumerate(ast.walk(twin)) if position == index)
        _replace(twin, old, copy.deepcopy(new))
        yield Mutant(what, ast.fix_missing_locations(twin))


def _faults(node: ast.AST, lines: frozenset[int], definition: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What to put in the place of a statement's value, or of a part of it."""
    if not isinstance(node, ast.expr) or not lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
        return
    owner, above = _owner(node, definition)
    if owner is None:
        return
    new = [*(_of_result(node) if above in ("value", "element") else ()), *_of_part(node, above)]
    for one in new:
        yield f"line {node.lineno}: {ast.unparse(one)} for {ast.unparse(node)}", one


def _owner(node: ast.expr, definition: ast.ClassDef) -> tuple[ast.stmt | None, str]:
    """The assignment or return whose value holds ``node``, and what ``node`` is in it."""
    for statement in ast.walk(definition):
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return) and statement.value:
            if statement.value is node:
                return statement, "value" if not isinstance(node, ast.Tuple) else "tuple"
            if isinstance(statement.value, ast.Tuple) and node in statement.value.elts:
                return statement, "element"
            if any(inner is node for inner in ast.walk(statement.value)):
                return statement, _role(node, statement.value)
    return None, ""


def _role(node: ast.expr, value: ast.expr) -> str:
    for inner in ast.walk(value):
        if isinstance(inner, ast.Call) and inner.func is node:
            return "called"
        if isinstance(inner, ast.Attribute) and inner.value is node:
            return "owner"
        if isinstance(inner, ast.Subscript | ast.Slice) and node in ast.iter_child_nodes(inner):
            return "index"
    return "part"


def _of_result(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant):
        return
    for text in FAULTY_RESULTS:
        yield _filled(text, node)


def _of_part(node: ast.expr, role: str) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        if other := SWAPS.get(type(node.op)):
            yield ast.BinOp(node.left, other(), node.right)
        yield node.left
        yield node.right
        yield ast.UnaryOp(ast.USub(), node)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        for one in OTHER_COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [one()], node.comparators)
    elif isinstance(node, ast.Constant) and _is_number(node.value) and role != "index":
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.BinOp(node, ast.Mult(), ast.Constant(2)) if node.value else ast.Constant(2)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        yield ast.Call(node.func, [node.args[0], *reversed(node.args[1:])], node.keywords)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and role == "part":
        for text in ("(_) * 0", "(_) * 1.5", "(_).transpose(-1, -2)", "(_).detach()"):
            yield _filled(text, node)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _filled(text: str, node: ast.expr) -> ast.expr:
    frame = ast.parse(text, mode="eval").body

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return copy.deepcopy(node) if name.id == "_" else name

    filled = Fill().visit(frame)
    assert isinstance(filled, ast.expr)
    return filled


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if item is old:
                        value[index] = new
                        return
