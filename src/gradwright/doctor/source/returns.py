"""What a function returns, as the text has it: the place of each value."""

from __future__ import annotations

import ast

from gradwright.doctor.source.files import Columns, Span
from gradwright.doctor.source.statements import DEFINITIONS


def returned_values(text: str, line: int) -> tuple[Span, ...]:
    """The values of the only ``return`` of the function defined at ``line``: one each for a tuple, else one.

    Nothing where it has several returns with values, or none, or the text does not parse.

    >>> text = "def backward(ctx, g):\\n    return g * 2, None\\n"
    >>> [(span.line, span.column, span.end_column) for span in returned_values(text, 1)]
    [(2, 12, 17), (2, 19, 23)]
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    here = next((node for node in ast.walk(tree) if isinstance(node, functions) and node.lineno == line), None)
    if here is None:
        return ()
    returns = []
    front: list[ast.AST] = list(here.body)
    while front:
        node = front.pop()
        if isinstance(node, ast.Return):
            returns.append(node.value)
        elif not isinstance(node, (*DEFINITIONS, ast.Lambda)):
            front.extend(ast.iter_child_nodes(node))
    if len(returns) > 1:  # a way out that has nothing to return is not where a gradient comes from
        returns = [value for value in returns if not _is_nothing(value)]
    if len(returns) != 1 or returns[0] is None:
        return ()
    value = returns[0]
    columns = Columns(text)
    starred = isinstance(value, ast.Tuple) and any(isinstance(item, ast.Starred) for item in value.elts)
    parts = value.elts if isinstance(value, ast.Tuple) and not starred else [value]
    return tuple(columns.span(part) for part in parts)


def _is_nothing(value: ast.expr | None) -> bool:
    """``return``, ``return None``, ``return None, None`` or ``return (None,) * 3``."""
    if isinstance(value, ast.Tuple):
        return all(map(_is_nothing, value.elts))
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return _is_nothing(value.left) or _is_nothing(value.right)
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
