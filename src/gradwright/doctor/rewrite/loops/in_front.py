"""What the best begins as, in front of what it is compared with."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.source_text import DeclinedError


def behind(low: Lowering, start: Value, value: Value, kept: Sequence[Loop]) -> ast.expr:
    """The value with the start in front of it, along the axis after ``kept``."""
    if start.number and not start.axes and not value.cell:
        pad = nodes.attribute(nodes.attribute(nodes.attribute(low.torch, "nn"), "functional"), "pad")
        widths = ast.Tuple([nodes.constant(1), nodes.constant(0)], ast.Load())
        return nodes.call(pad, value.node, widths, value=start.node)
    if start.dtype != value.dtype or start.axes != tuple(kept) or start.cell != value.cell:
        raise DeclinedError("the best one begins as something of another kind than what it is compared with")
    parts = ast.Tuple([_column(start.node, len(kept)), value.node], ast.Load())
    dim = nodes.constant(len(kept) if value.cell else -1)
    return nodes.call(nodes.attribute(low.torch, "cat"), parts, *([dim] if kept else []))


def _column(node: ast.expr, axes: int) -> ast.expr:
    """The start with an axis more; ``x[:1]`` for ``x[0]``, which does not raise where x is empty."""
    if isinstance(node, ast.Subscript):
        *others, last = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        at, before = nodes.integer(last), sum(isinstance(one, ast.Slice) for one in others)
        if at is not None and at >= 0 and before == axes:
            return nodes.subscript(
                node.value, [*others, ast.Slice(nodes.constant(at) if at else None, nodes.constant(at + 1))]
            )
    return nodes.subscript(node, [*(nodes.whole() for _ in range(axes)), ast.Constant(None)])
