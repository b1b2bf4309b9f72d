"""What the best so far gives way to: larger (smaller) ones, never NaN; and which of equal ones it is in the end."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Statement
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import chosen, number_value, under_all
from gradwright.doctor.rewrite.loops.targets import first_value, infinity
from gradwright.doctor.rewrite.loops.value import Value, aligned
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import dotted

Ties = Literal["first", "last", "shared"]


def function_of(statement: Statement) -> str:
    """``max`` or ``min``."""
    return {">": "max", ">=": "max", "<": "min", "<=": "min"}.get(statement.operator, statement.operator)


def ties(statement: Statement) -> Ties:
    """Which of equal ones the loop keeps; ``shared``: torch.maximum, half of the gradient to each.

    Raises: DeclinedError, where the text does not show it.
    """
    if statement.operator in ("<", ">", "<=", ">="):
        return "first" if len(statement.operator) == 1 else "last"
    node = statement.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Call):
        raise DeclinedError("which of equal ones is the best so far is not what the text shows")
    if len(node.value.args) != 2 or dotted(node.value.func).startswith("torch."):
        return "shared"
    one, other = node.value.args
    target = node.targets[0]
    if statement.kind == "accumulate":
        return "first" if ast.unparse(one) == ast.unparse(target) else "last"
    return "first" if _is_before(one, other, target) else "last"


def _is_before(one: ast.expr, other: ast.expr, target: ast.expr) -> bool:
    """Whether ``one``, not ``other``, is the element before: ``m[i - 1]``, where ``m[i]`` is assigned."""
    inside = [nodes.root_name(part) == nodes.root_name(target) for part in (one, other)]
    itself = [ast.unparse(part) == ast.unparse(target) for part in (one, other)]
    return inside[0] and not itself[0] and (itself[1] or not inside[1])


def start_of(writer: Writer, name: str) -> Value:
    """What a name begins as. Raises: DeclinedError, where that is no number and no tensor that was seen."""
    known = writer.context.known.get(name)
    if known is not None:
        end = infinity(known.value.node)
        return known.value if end is None else number_value(end)
    if name in writer.context.temporaries or writer.depth:
        raise DeclinedError(f"{name} goes on from one iteration of a loop to the next")
    made = writer.made(name)
    if made is not None and made.number:
        return number_value(made.fill)
    if (number := _literal(first_value(writer.context.frame, writer.at, name))) is not None:
        return number_value(number)
    live = writer.context.seen.live_ins.get(name)
    if live is not None and live.tensor is not None:
        rank, dtype = len(live.tensor.shape), live.tensor.dtype
        return Value(nodes.name(name), (), rank, False, dtype, carriers=frozenset({name}))
    if live is not None and live.type in ("int", "float"):
        return Value(nodes.name(name), number=True, dtype=live.type)
    raise DeclinedError(f"{name} begins as something that the text does not show")


def _literal(node: ast.expr | None) -> int | float | None:
    if node is None or infinity(node) is not None:
        return None if node is None else infinity(node)
    whole = nodes.integer(node)
    return nodes.number(node) if whole is None else whole


def is_endless(start: Value, function: str) -> bool:
    """Whether every number but NaN and one infinity is better than the start."""
    return infinity(start.node) == (float("-inf") if function == "max" else float("inf"))


def beating(low: Lowering, statement: Statement, start: Value, conditions: Sequence[tuple[Value, bool]] = ()) -> Value:
    """The value of every iteration where it is better than the start, and the start where it is not.

    NaN is better than nothing, as in the loop; and an iteration that a condition leaves out changes nothing.
    """
    function = function_of(statement)
    value = under_all(low, conditions, statement.value)
    if value.cell or start.cell:
        raise DeclinedError("the best of whole rows")
    if value.number and not start.number:
        raise DeclinedError("the best one begins as a tensor, and goes on as a number")
    tracked = value.floating and not value.number and low.context.tracked
    if not tracked:
        node = nodes.method(value.node, "detach") if value.live and value.domain else value.node
        value = replace(value, node=node, live=value.live and not value.domain, domain=False)
    if not value.floating and is_endless(start, function):
        if conditions:
            raise DeclinedError("whole numbers under a condition, and nothing to begin with")
        return value
    if not value.floating and start.floating:
        raise DeclinedError("whole numbers, and a start that is none")
    value = as_exact(value, start)
    sign: ast.cmpop = ast.Gt() if function == "max" else ast.Lt()
    both = low.together([value, start])
    one, other = aligned(both, low.order)
    wins = low.combined(ast.Compare(one, [sign], [other]), both, "bool")
    around = [*conditions, (replace(wins, live=False, domain=False), True)]
    if value.domain or (low.context.careful and tracked):
        value = under_all(low, around, statement.value)
    return chosen(low, around, value, start)


def as_exact(value: Value, start: Value) -> Value:
    """Python compares its numbers in float64."""
    if not value.number or not value.axes or value.dtype == "float64" or not value.floating:
        return value
    begin = nodes.number(start.node)
    if infinity(start.node) is not None or (begin is not None and nodes.is_short(begin)):
        return value
    return replace(value, node=nodes.method(value.node, "double"), dtype="float64", carriers=frozenset())
