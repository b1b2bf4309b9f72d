"""Whether what is computed lies densely in memory, in the order of its axes, as a buffer made for it does."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Context
from gradwright.doctor.rewrite.loops.known import ELEMENTWISE
from gradwright.doctor.source.names import words
from gradwright.ground.syntax import dotted

_DENSE = words("contiguous arange sum mean prod amax amin argmax argmin all any count_nonzero")


def lies_densely(context: Context, node: ast.expr) -> bool:
    """Whether it surely does, however the tensors lie that it is computed of.

    So do a product of matrices, a sum over an axis, and what is computed of vectors, a number beside them or not.
    """
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        return dotted(node.value.func).endswith(".arange")
    if isinstance(node, ast.Name | ast.Subscript):
        names = {name for name in nodes.names_in(node) if not context.frame.module_of(nodes.name(name))}
        live = [context.seen.live_ins.get(name) for name in names]
        return all(one is not None and (one.tensor is None or len(one.tensor.shape) < 2) for one in live)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return True
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    if isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    if isinstance(node, ast.Call):
        function = node.func
        name = dotted(function).rsplit(".", 1)[-1] if dotted(function) else getattr(function, "attr", "")
        if name in _DENSE or context.frame.module_of(function).startswith("math."):
            return True
        if name not in ELEMENTWISE | {"where"}:
            return False
        owned = isinstance(function, ast.Attribute) and not context.frame.module_of(function)
        parts = [*([function.value] if owned and isinstance(function, ast.Attribute) else []), *node.args]
        parts += [one.value for one in node.keywords]
    elif not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp):
        return False
    return all(lies_densely(context, part) for part in parts)
