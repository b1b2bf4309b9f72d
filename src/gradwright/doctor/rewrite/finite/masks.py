"""Masks: a softmax of a row that is all masked, a product with 0 that keeps what is infinite."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.finite.place import Change, Place
from gradwright.ground.syntax import dotted_names

_LEFT_OUT = "where the factor is 0 so is the product, and what it leaves out has a finite slope"
_SAFE_BASE = {"log": "1", "log2": "1", "log10": "1", "rsqrt": "1", "reciprocal": "1"}


def masked_rows(place: Place) -> Iterator[Change]:
    """The lowest number there is in place of -inf: the same weights, and a row that is all masked shares alike."""
    operation = place.operation(place.node)
    if operation is None or not isinstance(place.node, ast.Call):
        return
    if operation.name not in ("softmax", "log_softmax"):
        return
    what = "a row that is all masked is shared alike, any other one as before"
    for infinity, whose in _infinities(place, operation.operand):
        if dotted_names(whose):
            lowest = f"{place.torch}.finfo({place.code(whose)}.dtype).min"
            yield Change(place.node, place.with_parts(place.node, [(infinity, lowest)]), what)
    text, bound = place.twice(operation.operand, "scores")
    lowest = f"{text}.clamp(min={place.torch}.finfo({text}.dtype).min)"
    before = place.with_parts(place.node, [(operation.operand, text)]) if bound is not None else ""
    yield Change(place.node, place.with_parts(place.node, [(operation.operand, lowest)]), what, before, bound=bound)


def _infinities(place: Place, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``-inf`` where the scores' own expression fills a mask with it, and the scores that it fills."""
    operation = place.operation(node)
    if operation is None or operation.name != "masked_fill" or len(operation.operands) != 3:
        return
    if _is_minus_infinity(operation.operands[2], place):
        yield operation.operands[2], operation.operand


def _is_minus_infinity(node: ast.expr, place: Place) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        names = dotted_names(node.operand)
        float_of = isinstance(node.operand, ast.Call) and getattr(node.operand.func, "id", "") == "float"
        return bool(names and names[-1] == "inf") or (float_of and "inf" in place.code(node.operand))
    text = place.code(node).replace(" ", "").replace("'", '"').lower()
    return text in ('float("-inf")', 'float("-infinity")')


def zero_products(place: Place) -> Iterator[Change]:
    """What a factor of 0 leaves out is left out also where it is infinite."""
    operation = place.operation(place.node)
    if operation is None or operation.name != "mul" or len(operation.operands) != 2:
        return
    node = place.expression
    values = dict(place.fact.operands)
    first_is_zero = values.get("operand") == 0
    zero, infinite = operation.operands if first_is_zero else reversed(operation.operands)
    torch = place.torch
    text, bound = place.twice(zero, "factor")
    before = place.with_parts(node, [(zero, text)]) if bound is not None else ""
    inner = place.operation(infinite)
    if inner is not None and inner.name in _SAFE_BASE:
        guard = f"{torch}.where({text} == 0, {_SAFE_BASE[inner.name]}, {place.code(inner.operand)})"
        new = place.with_parts(node, [(zero, text), (infinite, place.with_parts(infinite, [(inner.operand, guard)]))])
        yield Change(node, new, _LEFT_OUT, before, bound=bound)
    if inner is not None and inner.name == "div" and len(inner.operands) == 2:
        guard = f"{torch}.where({text} == 0, 1, {place.code(inner.operands[1])})"
        quotient = place.with_parts(infinite, [(inner.operands[1], guard)])
        quotient = f"({quotient})" if isinstance(infinite, ast.BinOp) else quotient
        new = place.with_parts(node, [(zero, text), (infinite, quotient)])
        yield Change(node, new, _LEFT_OUT, before, bound=bound)
    product = place.with_parts(node, [(zero, text)])
    new = f"{torch}.where({text} == 0, 0, {product})"
    yield Change(node, new, "where the factor is 0 so is the product", before, bound=bound)
    if dotted_names(infinite) and bound is None:
        factor = place.code(infinite)
        guard = f"{torch}.where(({text} == 0) & {torch}.isinf({factor}), 0, {factor})"
        new = place.with_parts(node, [(infinite, guard)])
        yield Change(node, new, "what a factor of 0 leaves out is taken as 0 where it is infinite")
