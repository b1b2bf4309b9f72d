"""``x.clone() * 2`` and ``x * b.repeat(n, 1)``: memory that is filled only to be read once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import (
    FunctionNode,
    Suspect,
    called,
    gives_new_memory,
    is_module_call,
    is_pure_call,
    is_written_into,
    names_in,
    own_nodes,
    parents,
)
from gradwright.doctor.source.names import words
from gradwright.doctor.source.statements import Origins

_COPIES = frozenset({"clone", "repeat"})
# They read a transposed matrix as it lies, and their result lies as if it had not been.
_OF_ANY_LAYOUT = words("matmul mm bmm mv dot")
_ABOUT = words("shape dtype device ndim")


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: what is copied. Only where the copy is an operand of arithmetic or of a function of torch's; so too,
    wherever it is read, a clone that has a name."""
    around = parents(function)
    for node in own_nodes(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
            continue
        if origins.dotted(node.func) == "torch.tensor":
            found = len(node.args) == 1 and _is_read_only(node, around, origins)
            copied = node.args[0] if node.args else node
        elif is_module_call(node, origins) or any(isinstance(one, ast.Starred) for one in node.args):
            continue
        else:
            found, copied = _is_needless(node, node.func.attr, function, around, origins), node.func.value
        if found and not is_written_into(function, names_in(copied)):
            yield Suspect("copy", node, function, (copied,))


def _is_needless(
    node: ast.Call, name: str, function: FunctionNode, around: dict[ast.AST, ast.AST], origins: Origins
) -> bool:
    """Of a method of a tensor."""
    if name == "contiguous":
        return not node.args and _layout_is_all_the_same(node, around, origins)
    if name not in _COPIES or bool(node.args) != (name == "repeat"):
        return False
    if _is_read_only(node, around, origins) or _is_fresh_already(node, origins):
        return True
    return name == "clone" and _is_read_by_name(node, function, around, origins)


def _layout_is_all_the_same(node: ast.Call, around: dict[ast.AST, ast.AST], origins: Origins) -> bool:
    """Whether it goes into a matrix product."""
    above = around.get(node)
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, ast.MatMult)
    if isinstance(above, ast.Attribute):
        above = around.get(above)
    return (
        isinstance(above, ast.Call)
        and (node in above.args or getattr(above.func, "value", None) is node)
        and called(above, origins) in _OF_ANY_LAYOUT
        and is_pure_call(above, origins)
    )


def _is_read_by_name(node: ast.Call, function: FunctionNode, around: dict[ast.AST, ast.AST], origins: Origins) -> bool:
    """Whether the clone gets a name, its only value, and whatever is done by that name only reads it."""
    assign = around.get(node)
    base = node.func.value if isinstance(node.func, ast.Attribute) else node
    if not isinstance(assign, ast.Assign) or not isinstance(base, ast.Name) or len(assign.targets) != 1:
        return False
    target = assign.targets[0]
    if not isinstance(target, ast.Name) or target.id == base.id or is_written_into(function, frozenset({target.id})):
        return False
    everywhere = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == target.id]
    arguments = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    mine = set(own_nodes(function))
    return target.id not in arguments and all(
        one is target or (one in mine and isinstance(one.ctx, ast.Load) and _only_reads(one, around, origins))
        for one in everywhere
    )


def _only_reads(node: ast.Name, around: dict[ast.AST, ast.AST], origins: Origins) -> bool:
    above = around.get(node)
    return _is_read_only(node, around, origins) or (isinstance(above, ast.Attribute) and above.attr in _ABOUT)


def _is_read_only(node: ast.expr, around: dict[ast.AST, ast.AST], origins: Origins) -> bool:
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
