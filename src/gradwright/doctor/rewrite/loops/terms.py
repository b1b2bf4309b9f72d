"""Sums of sizes, shapes made of them, and the ways in which a text asks for a size."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops import nodes
from gradwright.ground.syntax import dotted


@dataclass(frozen=True)
class Term:
    """A sum of sizes: ``terms`` are (what, how often), plus ``constant``."""

    terms: tuple[tuple[Hashable, int], ...] = ()
    constant: int = 0

    def plus(self, other: Term, factor: int = 1) -> Term:
        counts: dict[Hashable, int] = dict(self.terms)
        for what, count in other.terms:
            counts[what] = counts.get(what, 0) + factor * count
        kept = tuple(sorted(((what, count) for what, count in counts.items() if count), key=repr))
        return Term(kept, self.constant + factor * other.constant)

    def times(self, factor: int) -> Term:
        return Term().plus(self, factor)

    def minus(self, other: Term) -> int | None:
        """How much longer this is than ``other``, where that is known."""
        apart = self.plus(other, -1)
        return None if apart.terms else apart.constant


def divided(term: Term, by: int) -> Term:
    """``term // by``: what is a multiple of it is taken out, (n - 2) // 2 is n // 2 - 1."""
    out = Term(tuple((what, count // by) for what, count in term.terms if count % by == 0), term.constant // by)
    rest = Term(tuple((what, count) for what, count in term.terms if count % by), term.constant % by)
    if not rest.terms:
        return out
    return out.plus(Term(((("FloorDiv", rest, Term((), by)), 1),)))


def quotient(term: Term, by: Term) -> Term:
    """``term // by`` for any size: what it is called where that is no number."""
    return divided(term, by.constant) if not by.terms and by.constant > 0 else Term(((("FloorDiv", term, by), 1),))


@dataclass(frozen=True)
class Shape:
    """``dims`` where each was given, else the axes of the tensor ``root``."""

    root: Hashable
    dims: tuple[Term, ...] | None = None

    def dim(self, axis: int, rank: int | None) -> Term | None:
        if self.dims is not None:
            rank = len(self.dims)
        if axis < 0:
            if rank is None:
                return None
            axis += rank
        if self.dims is not None:
            return self.dims[axis] if 0 <= axis < len(self.dims) else None
        return Term((((self.root, axis), 1),))


def position_known(node: ast.AST) -> bool:
    return getattr(node, "lineno", 0) > 0


def whole_size_of(node: ast.expr) -> str:
    """``x`` for ``x.shape`` and ``x.size()``; "" for all else."""
    if isinstance(node, ast.Call) and not node.args and not node.keywords and isinstance(node.func, ast.Attribute):
        return dotted(node.func.value) if node.func.attr == "size" else ""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return dotted(node.value)
    return ""


def size_of(node: ast.expr) -> tuple[str | None, int]:
    """``("x", k)`` for ``x.shape[k]``, ``x.size(k)``, ``len(x)`` or ``x.numel()``; ``("x", 1)`` for ``len(x[i])``."""
    if isinstance(node, ast.Subscript):
        whole, axis = whole_size_of(node.value), nodes.integer(node.slice)
        if not whole and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            rows, outer = _rows(node.value.value)
            return (rows, outer + axis) if rows and axis is not None and axis >= 0 else (None, 0)
        return (whole, axis) if whole and axis is not None else (None, 0)
    if not isinstance(node, ast.Call) or node.keywords:
        return None, 0
    if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return _rows(node.args[0])
    if isinstance(node.func, ast.Attribute) and dotted(node.func.value):
        tensor = dotted(node.func.value)
        if node.func.attr == "size" and len(node.args) == 1 and (axis := nodes.integer(node.args[0])) is not None:
            return tensor, axis
        if node.func.attr == "numel" and not node.args:
            return tensor, 0  # read by one index, it has one axis
    return None, 0


def asks_numel(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "numel"


def _rows(node: ast.expr) -> tuple[str | None, int]:
    """``("x", 0)`` for ``x``, ``("x", 1)`` for ``x[i]``: all rows of a tensor are as long."""
    axis = 0
    while isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(part, ast.Slice) for part in parts):
            return None, 0
        axis += len(parts)
        node = node.value
    tensor = dotted(node)
    return (tensor, axis) if tensor else (None, 0)
