"""Functions at the edge of what they are defined on, or have a slope on.

Where the value is finite at the edge it stays, and the gradient there is 0; where it is not and ``torch.where`` does
not take it, the operand is chosen from inside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.expressions.guard_boundary import as_norm
from gradwright.doctor.rewrite.finite.branches import branch_of
from gradwright.doctor.rewrite.finite.operations import Operation
from gradwright.doctor.rewrite.finite.place import Change, Place

# A point inside of where they are defined and have a slope, whatever they are given.
SAFE = {
    "sqrt": "1", "rsqrt": "1", "log": "1", "log2": "1", "log10": "1", "log1p": "1", "pow": "1", "reciprocal": "1",
    "div": "1", "exp": "1", "expm1": "1", "exp2": "1", "acos": "0", "asin": "0", "atanh": "0", "erfinv": "0",
    "acosh": "2", "logit": "0.5", "float_power": "1", "xlogy": "1",
}  # fmt: skip
LOGARITHMS = {"log": "0", "log2": "0", "log10": "0", "log1p": "-1"}
ROUNDING = 1e-3  # so far beyond an edge a value may have come by rounding


def guarded_branch(place: Place) -> Iterator[Change]:
    """What ``torch.where`` does not take gets an operand that harms nobody."""
    operation = place.operation(place.node)
    branch = branch_of(place) if isinstance(place.node, ast.expr) else None
    if operation is None or branch is None or operation.name not in SAFE:
        return
    at = 1 if operation.name in ("div", "xlogy") else 0
    if at >= len(operation.operands):
        return
    operand = operation.operands[at]
    guard = branch.choice(place, place.code(operand), SAFE[operation.name])
    what = "the operand is guarded too, so that the branch that is not taken has a finite slope"
    if branch.where is not None:
        yield Change(branch.where, place.with_parts(branch.where, [(operand, guard)]), what)
    else:
        node = place.expression
        new = place.with_parts(node, [(operand, guard)])
        before, after = (branch.choice(place, code, "0") for code in (place.code(node), new))
        yield Change(node, new, what, before, after)


def at_the_edge(place: Place) -> Iterator[Change]:
    """Each form by itself: see above."""
    operation = place.operation(place.node)
    if operation is None or not isinstance(place.node, ast.expr):
        return
    if operation.name in ("sqrt", "pow") and (norm := as_norm(place.splice, place.node, place.function)) is not None:
        (_, new), *_ = norm
        yield Change(place.node, new, "a norm whose gradient at 0 is 0")
    if operation.name in ("sqrt", "pow", "float_power"):
        yield from _roots(place, operation)
    elif operation.name in ("acos", "asin"):
        yield from _arcs(place, operation)
    elif operation.name == "acosh":
        yield _double(place, operation, "{} == 1", "2")
    elif operation.name in LOGARITHMS and place.fact.phase == "backward":
        yield _inside(place, operation, f"{{}} <= {LOGARITHMS[operation.name]}")
    elif operation.name == "div" and place.fact.cause == "where-nan":
        yield _inside(place, operation, "{} == 0", at=1)


def _roots(place: Place, operation: Operation) -> Iterator[Change]:
    power = operation.operands[1] if operation.name != "sqrt" and len(operation.operands) > 1 else None
    if operation.name != "sqrt" and (power is None or _is_negative(power)):
        return
    below = _operand_value(place)
    if place.fact.phase == "forward":  # of a negative number: NaN
        if operation.name == "sqrt" and below is not None and -ROUNDING < below < 0:
            yield _double(place, operation, "{} <= 0", "1")
        return
    unused = place.fact.cause == "where-nan"  # then NaN, of a negative number, was not used either
    yield _double(place, operation, "{} <= 0" if unused else "{} == 0", "1", unused=unused)


def _double(place: Place, operation: Operation, edge: str, safe: str, *, unused: bool = False) -> Change:
    """``torch.where(x == 0, 0, f(torch.where(x == 0, 1, x)))``: at the edge it is 0, and so is the slope."""
    operand, torch = operation.operand, place.torch
    name, bound = place.twice(operand, "operand")
    is_edge = edge.format(name)
    inner = place.with_parts(place.node, [(operand, f"{torch}.where({is_edge}, {safe}, {name})")])
    return Change(
        place.expression, f"{torch}.where({is_edge}, 0, {inner})", "at the edge the value is 0, and so is the gradient",
        place.with_parts(place.node, [(operand, name)]) if bound else "", bound=bound, unused=unused,
    )  # fmt: skip


def _inside(place: Place, operation: Operation, edge: str, at: int = 0) -> Change:
    """``f(torch.where(x <= 0, 1, x))``: for values that nobody uses."""
    operand = operation.operands[at]
    name, bound = place.twice(operand, "operand")
    guard = f"{place.torch}.where({edge.format(name)}, 1, {name})"
    return Change(
        place.expression, place.with_parts(place.node, [(operand, guard)]),
        "the operand is guarded too, so that what is not used has a finite slope",
        place.with_parts(place.node, [(operand, name)]) if bound else "", bound=bound, unused=True,
    )  # fmt: skip


def _arcs(place: Place, operation: Operation) -> Iterator[Change]:
    """The angle at 1 is what it was, by itself; a hair beyond 1 it is that of 1."""
    value = _operand_value(place)
    beyond = value is not None and abs(value) > 1
    if beyond and abs(value or 0.0) > 1 + ROUNDING:
        return
    torch = place.torch
    name, bound = place.twice(operation.operand, "operand")
    inside = f"{name}.abs() < 1"
    at_the_end = f"{name}.detach().clamp(-1, 1)" if beyond else f"{name}.detach()"
    safe, end = (
        place.with_parts(place.node, [(operation.operand, one)])
        for one in (f"{torch}.where({inside}, {name}, 0)", at_the_end)
    )
    yield Change(
        place.expression, f"{torch}.where({inside}, {safe}, {end})", "at the ends the gradient is 0",
        place.with_parts(place.node, [(operation.operand, name)]) if bound else "", bound=bound,
    )  # fmt: skip


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _operand_value(place: Place) -> float | None:
    return next((value for name, value in place.fact.operands if name == "operand"), None)
