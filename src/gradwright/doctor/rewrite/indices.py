"""Which element an index means, and how the whole tensor is lined up with the loop."""

from __future__ import annotations

import libcst as cst

from gradwright.doctor.rewrite.source_text import DeclinedError

Bounds = tuple[cst.BaseExpression | None, ...]


def flat_index(node: cst.Subscript) -> tuple[cst.BaseExpression, tuple[cst.BaseExpression, ...]]:
    """``x[i][j]`` as ``(x, (i, j))``. Raises: DeclinedError on slices."""
    indices: list[cst.BaseExpression] = []
    base: cst.BaseExpression = node
    while isinstance(base, cst.Subscript):
        parts = []
        for element in base.slice:
            if not isinstance(element.slice, cst.Index) or element.slice.star:
                raise DeclinedError("a slice")
            value = element.slice.value
            parts += [one.value for one in value.elements] if isinstance(value, cst.Tuple) else [value]
        indices = parts + indices
        base = base.value
    return base, tuple(indices)


def base_name(base: cst.BaseExpression) -> str:
    """``ctx`` for ``ctx.x``. Raises: DeclinedError, if what is indexed is computed."""
    while isinstance(base, cst.Attribute):
        base = base.value
    if not isinstance(base, cst.Name):
        raise DeclinedError("an element of something computed")
    return base.value


def aligned(base: cst.BaseExpression, axes: list[int], depth: int, bounds: Bounds) -> cst.BaseExpression:
    """``v`` for ``v[j]``, ``v[:, None]`` for ``v[i]``, with ``:n`` where the loop covers less than the axis."""
    parts: list[cst.BaseSlice] = []
    for axis in range(axes[0], depth):
        if axis not in axes:
            parts.append(cst.Index(cst.Name("None")))
        else:
            parts.append(cst.Slice(lower=None, upper=bounds[axis]))
    if all(isinstance(part, cst.Slice) and part.upper is None for part in parts):
        return base
    while isinstance(parts[-1], cst.Slice) and parts[-1].upper is None:
        parts.pop()
    return cst.Subscript(base, [cst.SubscriptElement(part) for part in parts])
