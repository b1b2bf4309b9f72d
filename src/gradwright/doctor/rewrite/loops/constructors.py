"""An empty tensor with the dtype and device of a buffer, from the text that made the buffer."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.sizes import LIKE
from gradwright.doctor.rewrite.loops.targets import Made, infinity, same_until
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.ground.syntax import dotted, position

_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full"})
_SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty"})


def alike(writer: Writer, made: Made) -> ast.expr | None:
    """``torch.empty(0, dtype=torch.long)`` for ``torch.zeros(n, dtype=torch.long)``; None if that is not known.

    ``x`` for ``torch.zeros_like(x)``, ``x.new_empty(0)`` for ``x.new_zeros(n, m)``.
    """
    call = getattr(made.statement, "value", None)
    if not isinstance(call, ast.Call):
        return None
    frame, torch = writer.context.frame, writer.context.torch
    keywords = {one.arg: one.value for one in call.keywords if one.arg is not None}
    if len(keywords) < len(call.keywords) or not set(keywords) <= {"dtype", "device"}:
        return None  # requires_grad, pin_memory, layout, out
    if not all(_is_steady(writer, made, value) for value in keywords.values()):
        return None
    full = frame.module_of(call.func)
    nothing = nodes.constant(0)
    if full in _SIZED or (full == "torch.full" and "dtype" in keywords):
        return nodes.call(nodes.attribute(torch, "empty"), nothing, **keywords)
    if full == "torch.full" and len(call.args) == 2 and _is_number(call.args[1]):
        return nodes.call(nodes.attribute(torch, "full"), ast.Tuple([nothing], ast.Load()), call.args[1], **keywords)
    if full in {f"torch.{kind}" for kind in LIKE} and len(call.args) == 1 and not keywords:
        return call.args[0] if dotted(call.args[0]) and _is_steady(writer, made, call.args[0]) else None
    if not full and isinstance(call.func, ast.Attribute) and dotted(call.func) and call.func.attr in _NEW:
        owner = call.func.value
        return nodes.method(owner, "new_empty", nothing, **keywords) if _is_steady(writer, made, owner) else None
    return None


def lies_as(made: Made) -> str:
    """The tensor whose order in memory the buffer has: ``x`` for ``torch.zeros_like(x)``; "" if it is dense."""
    call = getattr(made.statement, "value", None)
    kind = dotted(call.func).rsplit(".", 1)[-1] if isinstance(call, ast.Call) else ""
    if not isinstance(call, ast.Call) or kind not in LIKE | {"clone"}:
        return ""
    source = call.args[0] if kind in LIKE and call.args else call.func
    return dotted(source).removesuffix(".clone")


def _is_number(node: ast.expr) -> bool:
    """A number in the text, which the dtype can be told from."""
    return nodes.number(node) is not None or infinity(node) is not None


def _is_steady(writer: Writer, made: Made, node: ast.expr) -> bool:
    """Whether names mean the same after the loop as where the buffer was made."""
    frame = writer.context.frame
    if not dotted(node) and not isinstance(node, ast.Constant):
        return False
    names, attributes = nodes.names_in(node), {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    stored = {
        one.attr
        for one in ast.walk(frame.function or frame.tree)
        if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load)
        if position(made.statement) < position(one)
    }
    return not attributes & stored and all(same_until(frame, made.statement, writer.at, name) for name in names)
