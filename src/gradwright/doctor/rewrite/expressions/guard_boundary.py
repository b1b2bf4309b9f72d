"""A square root at 0, or whatever a ``torch.where`` leaves out, gets an operand at which it has a derivative.

The values stay what they are, at 0, at NaN and at negative numbers too. The gradient at the boundary is 0, as torch
has it for norms; everywhere else it is what it was.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, UndefinedGradient
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.suspect import (
    ELEMENTWISE,
    FunctionNode,
    called,
    integer,
    is_pure_call,
    is_torch_function,
    parents,
)
from gradwright.doctor.source.files import Columns

ONE_IS_SAFE = frozenset({"sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "pow"})


def guard_boundary(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    node, function = _node_at(splice, finding.location)
    taken = next((fact.taken for fact in facts if isinstance(fact, UndefinedGradient)), True)
    if not taken:
        edits = _in_where(splice, node, function)
        what = "the operand is guarded too, so that the branch that is not taken has a finite derivative"
    elif (norm := as_norm(splice, node, function)) is not None:
        edits, what = norm, "a norm whose gradient at 0 is 0"
    else:
        edits, what = _as_double_where(splice, node, function), "at 0 the value is 0, and so is the gradient"
    return (splice.proposal("guard_boundary", function, splice.replaced(edits), what),)


Edits = list[tuple[tuple[int, int], str]]


def _node_at(splice: Splice, at: Location) -> tuple[ast.expr, FunctionNode]:
    columns = Columns(splice.text.replace("\r\n", "\n"))
    for function in ast.walk(splice.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp | ast.Call):
                span = columns.span(node)
                if (span.line, span.column, span.end_line, span.end_column) == (
                    at.line,
                    at.column,
                    at.end_line,
                    at.end_column,
                ):
                    return node, function
    raise DeclinedError("the operation is not found in the text")


def _operand(splice: Splice, node: ast.expr) -> ast.expr | None:
    """What must not be 0: the operand of a root or a logarithm, the base of a power, the denominator of a quotient."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div):
            return node.right
        return node.left if isinstance(node.op, ast.Pow) else None
    if isinstance(node, ast.Call) and called(node, splice.origins) in ONE_IS_SAFE:
        if is_torch_function(node, splice.origins):
            return node.args[0] if node.args else None
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    return None


# --- inside a torch.where --------------------------------------------------------------------------------------------


def _in_where(splice: Splice, node: ast.expr, function: FunctionNode) -> Edits:
    around = parents(function)
    inner: ast.AST = node
    above = around.get(node)
    while isinstance(above, ast.expr):
        where = isinstance(above, ast.Call) and called(above, splice.origins) == "where"
        if isinstance(above, ast.Call) and where and is_torch_function(above, splice.origins) and len(above.args) == 3:
            operand = _operand(splice, node)
            if operand is None or inner not in above.args[1:]:
                break
            condition = splice.code(above.args[0])
            branches = [splice.code(operand), "1"] if inner is above.args[1] else ["1", splice.code(operand)]
            new = f"{splice.torch(function)}.where({condition}, {', '.join(branches)})"
            return [(splice.with_own_parentheses(operand), _in_place_of(splice, operand, new, node))]
        arithmetic = isinstance(above, ast.BinOp) and not isinstance(above.op, ast.MatMult)
        elementwise = isinstance(above, ast.Call) and called(above, splice.origins) in ELEMENTWISE
        pure = isinstance(above, ast.Call) and elementwise and is_pure_call(above, splice.origins)
        if not (arithmetic or pure or isinstance(above, ast.UnaryOp | ast.Attribute)):
            break
        inner, above = above, around.get(above)
    raise DeclinedError("no torch.where around it says where its result is not used")


def _in_place_of(splice: Splice, operand: ast.expr, new: str, node: ast.expr) -> str:
    """The parentheses of ``torch.sqrt(x)`` are the call's own and stay."""
    first, last = splice.with_own_parentheses(operand)
    kept = (first, last) != splice.span(operand) and isinstance(node, ast.Call) and operand in node.args
    return f"({new})" if kept else new


# --- a norm ----------------------------------------------------------------------------------------------------------


def as_norm(splice: Splice, node: ast.expr, function: FunctionNode | None) -> Edits | None:
    """``torch.sqrt((d * d).sum(-1))`` as ``torch.linalg.vector_norm(d, dim=-1)``."""
    total = _radicand(splice, node)
    if not (isinstance(total, ast.Call) and isinstance(total.func, ast.Attribute) and total.func.attr == "sum"):
        return None
    plain = is_torch_function(total, splice.origins)
    if plain and not total.args:
        return None
    squares, rest = (total.args[0], total.args[1:]) if plain else (total.func.value, total.args)
    base = _squared(splice, squares)
    if base is None or len(rest) > 2 or any(one.arg not in ("dim", "keepdim") for one in total.keywords):
        return None
    if len(rest) == 2 and integer(rest[1]) is not None:
        return None  # sum(0, 1): two axes
    names = ("dim", "keepdim")
    options = [f"{name}={splice.code(one)}" for name, one in zip(names, rest, strict=False)]
    options += [f"{one.arg}={splice.code(one.value)}" for one in total.keywords]
    arguments = ", ".join([splice.code(base), *options])
    new = f"{splice.torch(function)}.linalg.vector_norm({arguments})"
    return [(splice.with_own_parentheses(node), new)]


def _radicand(splice: Splice, node: ast.expr) -> ast.expr | None:
    """What the root is taken of: of ``torch.sqrt(s)``, ``s.sqrt()`` and ``s ** 0.5``."""
    if isinstance(node, ast.BinOp):
        half = isinstance(node.right, ast.Constant) and node.right.value == 0.5
        return node.left if isinstance(node.op, ast.Pow) and half else None
    root = isinstance(node, ast.Call) and called(node, splice.origins) == "sqrt"
    return _operand(splice, node) if root else None


def _squared(splice: Splice, node: ast.expr) -> ast.expr | None:
    """What it is the square of: ``d * d``, ``d ** 2``, ``d.pow(2)``, ``torch.square(d)``."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right):
            return node.left if isinstance(node.left, ast.Name) else None
        return node.left if isinstance(node.op, ast.Pow) and integer(node.right) == 2 else None
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    plain = is_torch_function(node, splice.origins)
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    parts = node.args if plain else [*([receiver] if receiver is not None else []), *node.args]
    name = called(node, splice.origins)
    if name == "square" and len(parts) == 1:
        return parts[0]
    return parts[0] if name == "pow" and len(parts) == 2 and integer(parts[1]) == 2 else None


# --- a root of anything ----------------------------------------------------------------------------------------------


def _as_double_where(splice: Splice, node: ast.expr, function: FunctionNode) -> Edits:
    radicand = _radicand(splice, node)
    if radicand is None:
        raise DeclinedError("no form of this operation is known that has a gradient at the boundary")
    statement = next((one for one in function.body if any(inner is node for inner in ast.walk(one))), None)
    simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr)
    edits: Edits = []
    if isinstance(radicand, ast.Name):
        name = radicand.id
    elif statement is not None and simple and not _is_conditional(statement, node):
        name = splice.fresh_name("radicand")
        start = splice.line_span(statement)[0]
        line = f"{splice.indent(statement)}{name} = {splice.code(radicand)}{splice.newline(statement)}"
        edits.append(((start, start), line))
    else:
        raise DeclinedError("the operand has no name, and no place where it could be given one")
    torch = splice.torch(function)
    root = f"{torch}.sqrt({torch}.where({name} == 0, 1, {name}))"
    edits.append((splice.span(node), f"{torch}.where({name} == 0, 0, {root})"))
    return edits


def _is_conditional(statement: ast.stmt, node: ast.expr) -> bool:
    """Whether something decides if the expression is evaluated at all, or how often."""
    inside = ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    return any(isinstance(one, inside) and any(x is node for x in ast.walk(one)) for one in ast.walk(statement))
