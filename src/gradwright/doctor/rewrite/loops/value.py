"""What one iteration's expression is, over all iterations at once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.source_text import DeclinedError

_FLOATS = ("bfloat16", "float16", "float32", "float64")
SMALL_INTEGERS = ("uint8", "int8", "int16", "int32")
_INTEGERS = (*SMALL_INTEGERS, "int64")


@dataclass(frozen=True)
class Value:
    """``node`` computes a tensor whose leading dimensions run over ``axes``, in that order, then come ``cell`` more.

    ``number``: one iteration had a Python number, not a tensor. ``dtype``: of what ``node`` computes (``float32``), or
    ``int``, ``float``, ``bool`` where that is a plain Python number. ``live``: it may carry a gradient that the loop's
    number did not. ``domain``: undefined, or with an infinite derivative, at some values. ``sure``: axes whose length
    the text shows to be the loop's; ``unsure``: those that were as long in the run, and are read whole. ``carriers``:
    tensors that its dtype comes from.
    """

    node: ast.expr
    axes: tuple[Loop, ...] = ()
    cell: int = 0
    number: bool = False
    dtype: str = ""
    live: bool = False
    domain: bool = False
    sure: frozenset[Loop] = frozenset()
    unsure: frozenset[Loop] = frozenset()
    carriers: frozenset[str] = frozenset()

    @property
    def boolean(self) -> bool:
        return self.dtype == "bool"

    @property
    def floating(self) -> bool:
        return self.dtype in _FLOATS or self.dtype == "float"

    @property
    def weak(self) -> bool:
        """A Python number, or a tensor of no axis: it does not decide the dtype among its own kind."""
        return not self.axes and not self.cell

    def with_node(self, node: ast.expr) -> Value:
        return replace(self, node=node)


def kind_of(dtype: str) -> int:
    """0 for booleans, 1 for integers, 2 for floating numbers, 3 for complex ones."""
    if dtype == "bool":
        return 0
    if dtype == "int" or dtype in _INTEGERS:
        return 1
    if dtype == "float" or dtype in _FLOATS:
        return 2
    return 3


def promoted(values: Sequence[Value], *, division: bool = False, default: str = "float32") -> str:
    """The dtype of arithmetic among ``values``, as torch has it; of Python numbers alone, as Python has it.

    Raises: DeclinedError, where it is not known.
    """
    if any(not value.dtype for value in values):
        raise DeclinedError("the dtype of something in the loop was not seen")
    plain = all(value.dtype in ("int", "float", "bool") and value.weak and value.number for value in values)
    kind = max(kind_of(value.dtype) for value in values)
    if plain:
        return "float" if division or kind == 2 else "int" if kind == 1 else "bool"
    if division and kind < 2:
        return default
    strong = [value for value in values if not value.weak and kind_of(value.dtype) == kind]
    zero = [v for v in values if v.weak and not _is_plain(v) and kind_of(v.dtype) == kind]
    ranked = [value.dtype for value in strong or zero]
    if not ranked:
        return {0: "bool", 1: "int64", 2: default}.get(kind, "complex64")
    return _widest(ranked)


def _is_plain(value: Value) -> bool:
    return value.dtype in ("int", "float") or (value.dtype == "bool" and value.number)


def _widest(dtypes: Sequence[str]) -> str:
    found = set(dtypes)
    if len(found) == 1:
        return found.pop()
    if found == {"float16", "bfloat16"}:
        return "float32"
    if found <= set(_FLOATS):
        return max(found, key=_FLOATS.index)
    if found <= set(_INTEGERS):
        if "uint8" in found and "int8" in found:
            return max(found | {"int16"}, key=_INTEGERS.index)
        return max(found, key=_INTEGERS.index)
    raise DeclinedError("dtypes that are rarely mixed")


def joined_axes(values: Sequence[Value], order: Sequence[Loop]) -> tuple[Loop, ...]:
    present = {loop for value in values for loop in value.axes}
    return tuple(loop for loop in order if loop in present)


def aligned(values: Sequence[Value], order: Sequence[Loop]) -> list[ast.expr]:
    """The nodes, with ``None`` in their indices where broadcasting needs it."""
    axes = joined_axes(values, order)
    cell = max(value.cell for value in values)
    return [fitted(value, axes, cell) for value in values]


def fitted(value: Value, axes: Sequence[Loop], cell: int) -> ast.expr:
    """The node of ``value`` among others over ``axes`` whose elements have ``cell`` axes themselves."""
    if not value.axes:
        return value.node
    first = axes.index(value.axes[0])
    pattern = [loop in value.axes for loop in axes[first:]] + [False] * (cell - value.cell)
    return expanded(value.node, pattern)


def expanded(node: ast.expr, pattern: Sequence[bool]) -> ast.expr:
    """``node[:, None, :]`` for the pattern (kept, new, kept); merged into the slices that it ends with."""
    if all(pattern):
        return node
    base, parts = node, list[ast.expr]()
    if isinstance(node, ast.Subscript) and (own := _basic_parts(node)) is not None:
        base, parts = node.value, own
    out: list[ast.expr] = []
    for keep in pattern:
        while parts and nodes.integer(parts[0]) is not None:
            out.append(parts.pop(0))
        if not keep:
            out.append(ast.Constant(None))
            continue
        out.append(parts.pop(0) if parts else nodes.whole())
    return nodes.subscript(base, [*out, *parts])


def _basic_parts(node: ast.Subscript) -> list[ast.expr] | None:
    """The indices of a subscript of slices, None and literal integers; None for others."""
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    basic = all(isinstance(part, ast.Slice) or nodes.is_none(part) or nodes.integer(part) is not None for part in parts)
    return parts if basic else None


def reordered(value: Value, order: Sequence[Loop]) -> Value:
    """The same with its axes in the order of ``order``."""
    axes = tuple(loop for loop in order if loop in value.axes)
    if axes == value.axes:
        return value
    positions = [value.axes.index(loop) for loop in axes]
    if len(positions) == 2 and not value.cell:
        return replace(value, node=nodes.attribute(value.node, "T"), axes=axes)
    moved = [index for index, position in enumerate(positions) if index != position]
    if len(moved) == 2:
        node = nodes.method(value.node, "transpose", nodes.constant(moved[0]), nodes.constant(moved[1]))
        return replace(value, node=node, axes=axes)
    every = positions + list(range(len(positions), len(positions) + value.cell))
    return replace(value, node=nodes.method(value.node, "permute", *map(nodes.constant, every)), axes=axes)
