"""Logarithms of 0, where nothing better than a smallest operand is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.finite.place import Change, Place

LOGARITHMS = ("log", "log2", "log10")


def of_zero(place: Place) -> Iterator[Change]:
    """``p * log(p)`` has the limit 0; else the logarithm of the smallest number stands for that of 0."""
    operation = place.operation(place.node)
    if operation is None or operation.name not in LOGARITHMS or len(operation.operands) != 1:
        return
    if place.fact.phase != "forward" or not _is_zero(place):
        return
    node, torch = place.expression, place.torch
    product = place.parent(node)
    around = place.operation(product)
    if around is not None and around.name == "mul" and isinstance(product, ast.expr):
        other = next((one for one in around.operands if one is not node), None)
        if other is not None and ast.dump(other) == ast.dump(operation.operand):
            name, bound = place.twice(operation.operand, "operand")
            guarded = place.with_parts(node, [(operation.operand, f"{torch}.where({name} == 0, 1, {name})")])
            before, new = (place.with_parts(product, [(other, name), (node, one)])
                           for one in (place.with_parts(node, [(operation.operand, name)]), guarded))  # fmt: skip
            yield Change(product, new, "p log p is 0 at 0", before, bound=bound)
    name, bound = place.twice(operation.operand, "operand")
    smallest = f"{name}.clamp_min({torch}.finfo({name}.dtype).tiny)"
    before = place.with_parts(node, [(operation.operand, name)]) if bound is not None else ""
    new = place.with_parts(node, [(operation.operand, smallest)])
    yield Change(node, new, "0 is taken as the smallest number of its format", before, bound=bound)


def _is_zero(place: Place) -> bool:
    return any(name == "operand" and value == 0 for name, value in place.fact.operands)
