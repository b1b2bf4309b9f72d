"""A buffer that is wholly overwritten: its name is given what would be written into it, and nobody makes the buffer.

``out = torch.zeros(n, m)`` has the default dtype and device whatever is written into it, and lies densely in memory of
its own. ``.to(torch.empty(0))`` gives a value that dtype and device; a value that has them stays what it is. So where
this is somebody else's, it is copied: a view, and what autograd keeps of an operation for its backward (``exp``), which
a later ``out += 1`` would spoil.
"""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.constructors import alike, lies_as
from gradwright.doctor.rewrite.loops.density import lies_densely
from gradwright.doctor.rewrite.loops.layout import may_be_turned
from gradwright.doctor.rewrite.loops.ownership import is_its_own, is_view
from gradwright.doctor.rewrite.loops.stretches import Stretch
from gradwright.doctor.rewrite.loops.targets import Made, dtype_root, find_made, used_between
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.ground.syntax import dotted


def become(writer: Writer, stretch: Stretch, value: Value, made: Made | None, node: ast.expr) -> ast.expr | None:
    """What the buffer's name is given, instead of writing ``node`` into it; None if the buffer has to stay."""
    just_made = isinstance(node, ast.Name) and node.id in writer.owned
    kept = nodes.method(node, "clone") if is_view(node) and not just_made else node
    if stretch.base in writer.rebound:
        return become_again(writer, stretch, kept) if same_form(stretch, value) else None
    if made is None or made.number or name_changes_later(writer, stretch.base):
        return None
    turned = len(stretch.order) + stretch.cell > 1 and may_be_turned(node)
    if made.like and same_form(stretch, value) and not turned and _has_its_dtype(writer, value, made):
        return kept if lies_as(made) == made.like else _densely(writer, stretch, kept)
    return _converted(writer, stretch, value, made, node)


def become_again(writer: Writer, stretch: Stretch, node: ast.expr) -> ast.expr:
    """What the name is given that has the place of a buffer already."""
    made = find_made(writer.context.frame, writer.at, stretch.base)
    return node if made is None or lies_as(made) else _densely(writer, stretch, node)


def same_form(stretch: Stretch, value: Value) -> bool:
    """Whether the value has the shape and the dtype of the stretch by itself, as the text shows."""
    return _same_shape(stretch, value) and value.dtype == stretch.dtype


def name_changes_later(writer: Writer, name: str) -> bool:
    """Whether something after the loop, or a statement of it, writes into the tensor in place."""
    frame = writer.context.frame
    last = (writer.at.end_lineno or 0, 0)
    for node in ast.walk(frame.function or frame.tree):
        if getattr(node, "lineno", 0) <= last[0]:
            continue
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and nodes.root_name(node) == name:
            return True
        if isinstance(node, ast.AugAssign) and nodes.root_name(node.target) == name:
            return True
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if method is not None and method.attr.endswith("_") and nodes.root_name(method.value) == name:
            return True
    return False


def _same_shape(stretch: Stretch, value: Value) -> bool:
    return value.axes == stretch.order and set(stretch.order) <= value.sure and value.cell == stretch.cell


def _has_its_dtype(writer: Writer, value: Value, made: Made) -> bool:
    root = dtype_root(writer.context.frame, made.like, made.statement)
    return any(dtype_root(writer.context.frame, carrier, writer.at) == root for carrier in value.carriers)


def _converted(writer: Writer, stretch: Stretch, value: Value, made: Made, node: ast.expr) -> ast.expr | None:
    """``(a[:, None] * b).to(torch.empty(0))``, which lies in memory as the buffer did."""
    if stretch.cell or not value.axes or not _same_shape(stretch, value) or _changes(writer, stretch.base):
        return None
    if used_between(writer.context.frame, made.statement, writer.at, stretch.base):
        return None
    template = alike(writer, made)
    if template is None:
        return None
    own = is_its_own(node, tracked=writer.context.tracked and value.floating and not value.number)
    converted = nodes.method(node, "to", template, **({} if own else {"copy": ast.Constant(True)}))
    like = lies_as(made)
    if not like or len(stretch.order) == 1:
        return _densely(writer, stretch, node, converted)
    follows = like in {dotted(one) for one in ast.walk(node)} and not may_be_turned(node)
    return converted if follows else None


def _densely(writer: Writer, stretch: Stretch, node: ast.expr, given: ast.expr | None = None) -> ast.expr:
    """``given``, which lies in memory as ``node`` does, as densely as the buffer: somebody may ask for such a view."""
    given = given or node
    dense = len(stretch.order) + stretch.cell < 2 or lies_densely(writer.context, node)
    return given if dense else nodes.method(given, "contiguous")


def _changes(writer: Writer, name: str) -> bool:
    """Whether something is added to what was written: its dtype would be another then."""
    mine = [one for one in writer.nest.statements if name in {one.target.base, *(place.base for place, _ in one.also)}]
    return len(mine) > 1 and any(one.kind != "assign" for one in mine)
