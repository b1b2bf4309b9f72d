"""``x.clone() * 2`` and ``x * b.repeat(n, 1)``: memory that is filled only to be read once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import (
    FunctionNode,
    Suspect,
    gives_new_memory,
    is_module_call,
    is_written_into,
    names_in,
    own_nodes,
    parents,
)
from gradwright.doctor.source.statements import Origins

_COPIES = frozenset({"clone", "repeat"})


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: what is copied. Only where the copy is an operand of arithmetic or of a function of torch's."""
    around = parents(function)
    for node in own_nodes(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _COPIES
            and not is_module_call(node, origins)
            and not node.keywords
            and not any(isinstance(one, ast.Starred) for one in node.args)
            and bool(node.args) == (node.func.attr == "repeat")
            and (_is_read_only(node, around, origins) or _is_fresh_already(node, origins))
            and not is_written_into(function, names_in(node.func.value))
        ):
            yield Suspect("copy", node, function, (node.func.value,))


def _is_read_only(node: ast.Call, around: dict[ast.AST, ast.AST], origins: Origins) -> bool:
    """Whether what comes of it next is new memory: nobody can tell the copy from the original."""
    above = around.get(node)
    if isinstance(above, ast.BinOp | ast.Compare):
        return True
    if isinstance(above, ast.UnaryOp):
        return isinstance(above.op, ast.USub | ast.Invert)
    if isinstance(above, ast.Attribute):  # the receiver of a method
        call = around.get(above)
        return isinstance(call, ast.Call) and call.func is above and gives_new_memory(call, origins)
    return isinstance(above, ast.Call) and node in above.args and gives_new_memory(above, origins)


def _is_fresh_already(node: ast.Call, origins: Origins) -> bool:
    """A clone of the result of arithmetic or of a function."""
    assert isinstance(node.func, ast.Attribute)
    value = node.func.value
    if node.func.attr != "clone":
        return False
    return isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and gives_new_memory(value, origins))
