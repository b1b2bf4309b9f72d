"""What the expressions of a loop are while it is translated: scalars and rows, and how long the axes of a row are."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gradwright.doctor.rewrite.loops.nodes import name

Type = Literal["bool", "int", "float"]
_ORDER: tuple[Type, ...] = ("bool", "int", "float")


def wider(*types: Type) -> Type:
    """The type that holds them all."""
    return max(types, key=_ORDER.index)


@dataclass(frozen=True)
class Extent:
    """How long an axis is. ``code``: as the kernel writes it. ``outer``: known before the loop, as an axis of an
    argument or a literal; ``size``: what it was in the run. Extents with the same ``key`` are equal. ``cut``: the axis
    that it is a stretch of, and the text of the slice."""

    key: tuple[Any, ...]
    code: str
    size: int | None = None
    outer: bool = False
    cut: tuple[Extent, str] | None = None


ONE = Extent(("literal", 1), "1", 1, True)


@dataclass(frozen=True)
class Scalar:
    """``tensor``: a tensor without an axis (False: Python's own number, None: one or the other).

    ``native``: the kernel has it in the tensors' own precision, not in Python's.
    """

    code: ast.expr
    type: Type
    tensor: bool | None = False
    native: bool = False

    @property
    def kind(self) -> tuple[Any, ...]:
        return ("scalar", self.type, self.tensor, self.native)


@dataclass(frozen=True)
class Row:
    """A tensor with axes. ``element`` gives the code of one element; it may first emit statements that compute it.

    ``array``: the code of the array in memory, if it is one as it stands. ``reads``: the arrays of which elements are
    read. ``heavy``: an element costs a loop. ``listed``: Python's own list of scalars, not a tensor. ``native``: as in
    :class:`Scalar`.
    """

    extents: tuple[Extent, ...]
    type: Type
    element: Callable[[Sequence[ast.expr]], ast.expr] = field(compare=False)
    array: ast.expr | None = field(default=None, compare=False)
    reads: frozenset[str] = frozenset()
    heavy: bool = False
    listed: bool = False
    native: bool = field(default=False, compare=False)

    @property
    def kind(self) -> tuple[Any, ...]:
        return ("row", self.type, tuple(extent.key for extent in self.extents), self.listed)


@dataclass(frozen=True)
class Several:
    """A tuple of values; ``names`` if its items have any (``values`` and ``indices`` of a maximum)."""

    items: tuple[Value, ...]
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[Any, ...]:
        return ("several", *(item.kind for item in self.items))


Value = Scalar | Row | Several


def code(template: str, **parts: ast.expr) -> ast.expr:
    """An expression with other expressions in it.

    >>> ast.unparse(code("math.exp(v) / 2", v=ast.parse("a + b", mode="eval").body))
    'math.exp(a + b) / 2'
    """
    return _Put(parts).visit(copy.deepcopy(_parsed(template)))  # type: ignore[no-any-return]  # an expression stays one


@functools.cache
def _parsed(template: str) -> ast.expr:
    return ast.parse(template, mode="eval").body


class _Put(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.parts.get(node.id, node)


def item(base: ast.expr, indices: Sequence[ast.expr]) -> ast.expr:
    """``base[indices]``; an index on an index becomes one.

    >>> ast.unparse(item(name("x"), [name("i"), name("j")]))
    'x[i, j]'
    """
    index = indices[0] if len(indices) == 1 else ast.Tuple(list(indices), ast.Load())
    return ast.Subscript(base, index, ast.Load())


def of_array(array: str, extents: tuple[Extent, ...], type_: Type, reads: frozenset[str] | None = None) -> Row:
    """The row that a name of the kernel stands for."""
    return Row(
        extents,
        type_,
        lambda indices: item(name(array), indices),
        name(array),
        frozenset({array}) if reads is None else reads,
        native=type_ == "float",
    )
