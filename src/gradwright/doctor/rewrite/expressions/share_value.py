"""An expression that is evaluated twice gets a name, or the name that it has already is used."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.suspect import FunctionNode, called, operands, own_nodes
from gradwright.doctor.source.statements import Origins

OF_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "total",
    ast.Sub: "difference",
    ast.Mult: "product",
    ast.Div: "quotient",
    ast.MatMult: "product",
    ast.Pow: "power",
}


def share_value(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    suspect = splice.suspect("recomputed", finding)
    first = suspect.parts[0]
    others = [suspect.node, *suspect.others]
    statement = next(one for one in suspect.function.body if any(node is first for node in ast.walk(one)))
    named = _name_of(statement, first, suspect.function)
    edits = []
    if named is None:
        named = splice.fresh_name(_wanted(first, splice.origins))
        start = splice.line_span(statement)[0]
        line = f"{splice.indent(statement)}{named} = {splice.code(first)}{splice.newline(statement)}"
        edits.append(((start, start), line))
        others.append(first)
    edits += [(splice.with_own_parentheses(node), named) for node in others if isinstance(node, ast.expr)]
    what = f"`{named}` is computed once"
    return (splice.proposal("share_value", suspect.function, splice.replaced(edits), what),)


def _name_of(statement: ast.stmt, value: ast.expr, function: FunctionNode) -> str | None:
    """The name that the statement gives the value, if nothing else is ever bound to it or written into it."""
    if not (isinstance(statement, ast.Assign) and statement.value is value and len(statement.targets) == 1):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and node.id == target.id and node is not target:
            if not isinstance(node.ctx, ast.Load):
                raise DeclinedError(f"`{target.id}` is bound again")
        elif isinstance(node, ast.AugAssign | ast.Subscript | ast.Call) and _writes(node, target.id):
            raise DeclinedError(f"`{target.id}` is written into")
    return target.id


def _writes(node: ast.AugAssign | ast.Subscript | ast.Call, name: str) -> bool:
    if isinstance(node, ast.AugAssign):
        written: ast.expr = node.target
    elif isinstance(node, ast.Subscript):
        if isinstance(node.ctx, ast.Load):
            return False
        written = node.value
    elif isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        written = node.func.value
    else:
        return False
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(written))


def _wanted(value: ast.expr, origins: Origins) -> str:
    """``exp_x`` for ``torch.exp(x)`` and ``x.exp()``, ``difference`` for ``x - y``, ``exp_difference`` for its exp."""
    if isinstance(value, ast.BinOp):
        return OF_OPERATORS.get(type(value.op), "shared")
    if not isinstance(value, ast.Call):
        return "shared"
    first = next(iter(operands(value, origins)), None)
    of = first.id if isinstance(first, ast.Name) else "value"
    if isinstance(first, ast.BinOp):
        of = OF_OPERATORS.get(type(first.op), "value")
    return f"{called(value, origins)}_{of}"
