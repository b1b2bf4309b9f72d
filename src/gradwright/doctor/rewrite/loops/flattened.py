"""Indices that number the elements of rows one after the other: ``i * m + j`` with 0 <= j < m is (i, j)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops.expressions import added, literal, made, number, same
from gradwright.ground.syntax import dotted

# Whether a rest is at least 0 and below a stride, in every iteration.
Fits = Callable[[ast.expr, ast.expr], bool]


@dataclass(frozen=True)
class Unflattened:
    """``parts[0] * strides[0] + parts[1]``, that times ``strides[1]``, and so on."""

    parts: tuple[ast.expr, ...]
    strides: tuple[ast.expr, ...]


def unflattened(index: ast.expr, fits: Fits) -> Unflattened | None:
    """An index as several, where no other rows and columns come to the same number; None if it is no such sum."""
    for whole, stride, rest in _divided(index):
        if not fits(rest, stride):
            continue
        further = unflattened(whole, fits)
        if further is None:
            return Unflattened((whole, rest), (stride,))
        return Unflattened((*further.parts, rest), (*further.strides, stride))
    return None


def _divided(index: ast.expr) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """``(whole, stride, rest)`` with ``index == whole * stride + rest``, for every stride that is no literal."""
    terms = [*_terms(index, 1)]
    strides: list[ast.expr] = []
    for _, factors in terms:
        strides += [one for one in factors if literal(one) is None and not any(same(one, other) for other in strides)]
    for stride in strides:
        for alone in (True, False):  # a stride that stands alone may be one more row, or part of m - 1 - j
            whole, rest = [], []
            for sign, factors in terms:
                at = next((place for place, one in enumerate(factors) if same(one, stride)), None)
                if at is None or (len(factors) == 1 and not alone):
                    rest.append((sign, factors))
                else:
                    whole.append((sign, [*factors[:at], *factors[at + 1 :]]))
            if whole and rest:
                yield _sum(whole), stride, _sum(rest)


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[int, list[ast.expr]]]:
    """The products that an index adds up; ``(i + 1) * m`` is two."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, left in _terms(node.left, sign):
            for other, right in _terms(node.right, 1):
                yield one * other, [*left, *right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _terms(node.operand, -sign)
    else:
        yield sign, [node]


def _sum(terms: Sequence[tuple[int, list[ast.expr]]]) -> ast.expr:
    total: ast.expr | None = None
    for sign, factors in terms:
        product = _product(factors)
        if total is None:
            total = product if sign > 0 else made(ast.UnaryOp(ast.USub(), product))
        elif sign > 0:
            total = added(total, product)
        else:
            total = made(ast.BinOp(total, ast.Sub(), product))
    return total if total is not None else number(0)


def _product(factors: Sequence[ast.expr]) -> ast.expr:
    product: ast.expr | None = None
    for factor in sorted(factors, key=lambda one: literal(one) is None):
        product = factor if product is None else made(ast.BinOp(product, ast.Mult(), factor))
    return product if product is not None else number(1)


def is_size(node: ast.expr) -> bool:
    """A name, or what asks for a size: nothing that is computed."""
    if dotted(node):
        return True
    if isinstance(node, ast.Subscript):
        return dotted(node.value).endswith(".shape") and literal(node.slice) is not None
    if isinstance(node, ast.Call):
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return dotted(node.func) == "len" or (method in ("size", "numel") and bool(dotted(node.func)))
    return False
