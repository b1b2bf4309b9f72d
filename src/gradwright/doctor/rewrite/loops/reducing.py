"""Iterations that add up: sums, products, extremes, any and all; and sums into elements that a table names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.calls import first_wins
from gradwright.doctor.rewrite.loops.contest import contested
from gradwright.doctor.rewrite.loops.context import Temporary
from gradwright.doctor.rewrite.loops.contraction import contracted
from gradwright.doctor.rewrite.loops.ir import Loop, Vector
from gradwright.doctor.rewrite.loops.keeping import as_python, keep
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import (
    chosen,
    guards_of,
    in_triangle,
    number_value,
    store,
    under_all,
    write_added,
)
from gradwright.doctor.rewrite.loops.stretches import IDENTITY, OPERATORS, Stretch, stretch_of
from gradwright.doctor.rewrite.loops.targets import infinity
from gradwright.doctor.rewrite.loops.value import SMALL_INTEGERS, Value, kind_of
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

NEUTRAL: dict[str, int | float] = {**IDENTITY, "max": float("-inf"), "min": float("inf")}


def write_reduce(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    target = statement.target
    kept = [loop for loop in vector.axes if loop not in vector.reduced]
    if statement.operator in ("min", "max") and (best := contested(writer, vector)):
        keep(writer, best)
        return
    if not target.indices:
        if target.base in writer.context.temporaries:
            _into_temporary(writer, vector, kept)
        elif kept:
            raise DeclinedError(f"{target.base} is one value, and the loop over {kept[0].variable} goes on around it")
        else:
            _into_name(writer, vector)
        return
    stretch = stretch_of(writer, target, kept)
    if stretch is None:
        raise DeclinedError(f"{target.base} is added to at indices out of a table")
    _into_elements(writer, vector, stretch)


def reduction(writer: Writer, vector: Vector, kept: Sequence[Loop]) -> Value:
    """The statement's value, reduced: its axes are ``kept``."""
    order = [*kept, *vector.reduced]

    def lower(low: Lowering) -> Value:
        conditions = guards_of(writer, low, vector)
        statement = vector.statement
        if not conditions and statement.operator in ("+", "-"):
            product = contracted(low, statement.value, vector.reduced)
            if product is not None:
                return product
        value = under_all(low, conditions, statement.value)
        if statement.operator in ("and", "or") and not value.boolean:
            raise DeclinedError("and, or of something that is no comparison")
        return _reduced(writer, low, vector, value, conditions)

    temporary = vector.statement.target.base in writer.context.temporaries and not vector.statement.target.indices
    later = frozenset(kept) if temporary and "lengths" in writer.context.assumptions else frozenset[Loop]()
    return writer.lowered(order, lower, later)


def _reduced(
    writer: Writer, low: Lowering, vector: Vector, value: Value, conditions: Sequence[tuple[Value, bool]]
) -> Value:
    operator = vector.statement.operator
    if conditions:
        one = nodes.number(value.node)
        if operator == "+" and one == 1 and len(conditions) == 1 and conditions[0][1]:
            value = replace(conditions[0][0], number=value.number)
        elif operator in ("and", "or"):
            raise DeclinedError("and, or under a condition")
        else:
            part = in_triangle(low, vector, value) if operator in ("+", "-") else None
            value = part or chosen(low, conditions, value, number_value(NEUTRAL[operator]))
    missing = [loop for loop in vector.reduced if loop not in value.axes]
    gone = [loop for loop in vector.reduced if loop in value.axes]
    if gone and operator in ("+", "-") and value.dtype in SMALL_INTEGERS and not _wraps(writer, vector, value):
        value = replace(value, node=nodes.method(value.node, "long"), dtype="int64")
    result = _over(low, operator, value, gone) if gone else value
    for loop in missing:
        if operator in ("+", "-", "*", "/"):
            count = _rounds(writer, low, loop)
            if operator in ("+", "-") and isinstance(result.node, ast.Constant) and result.node.value == 1:
                result = count
                continue
            result = low.arithmetic(ast.Mult() if operator in "+-" else ast.Pow(), result, count)
    return result


def _wraps(writer: Writer, vector: Vector, value: Value) -> bool:
    """Whether the sum is kept in the terms' own small integers, which begin anew beyond the largest of them."""
    base = vector.statement.target.base
    live = writer.context.seen.live_ins.get(base)
    if live is not None and base not in writer.context.temporaries:
        return live.type == "int" or (live.tensor is not None and live.tensor.dtype == value.dtype)
    starts = [one.value for one in writer.nest.statements if one.kind == "assign" and one.target.base == base]
    return all(nodes.integer(start) is not None for start in starts)


def _rounds(writer: Writer, low: Lowering, loop: Loop) -> Value:
    """How often the loop goes round."""
    length = low.spans.length(loop)
    if length is None or low.spans.triangular(loop):
        raise DeclinedError("how often the loop goes round is not what the text shows")
    sizes = all(count > 0 and isinstance(what, tuple) and what[0] not in ("FloorDiv",) for what, count in length.terms)
    known = sizes and length.constant >= 0 and all(_is_length(what) for what, _ in length.terms)
    if not known:
        raise DeclinedError("how often the loop goes round may be a negative number")
    return Value(low.spans.written(length), number=True, dtype="int")


def _is_length(what: object) -> bool:
    """Whether a size is an axis of a tensor, (its shape's root, the axis), or the shortest of several."""
    if isinstance(what, tuple) and what[0] == "min":
        return all(term.constant >= 0 and all(_is_length(one) and by > 0 for one, by in term.terms) for term in what[1])
    return isinstance(what, tuple) and len(what) == 2 and isinstance(what[1], int)


def _over(low: Lowering, operator: str, value: Value, gone: Sequence[Loop]) -> Value:
    dims = [value.axes.index(loop) for loop in gone]
    left = tuple(loop for loop in value.axes if loop not in gone)
    node, dtype = value.node, value.dtype
    everything = not left and not value.cell
    if operator in ("+", "-"):
        narrow = kind_of(dtype) < 2 and dtype not in ("bool", "int64")
        keywords: dict[str, ast.expr] = {"dtype": nodes.attribute(low.torch, dtype)} if narrow else {}
        node = nodes.method(node, "sum", *([] if everything else [_at(value, dims)]), **keywords)
        dtype = "int64" if dtype == "bool" else dtype
    elif operator in ("*", "/"):
        if kind_of(dtype) < 2 and dtype != "int64":
            raise DeclinedError("a product of small integers")
        if kind_of(dtype) < 2 and value.number:
            raise DeclinedError("a product of Python's integers, of which none is the largest")
        for count, dim in enumerate(sorted(dims, reverse=True)):
            if everything and len(dims) == len(value.axes):
                node = nodes.method(node, "prod")
                break
            node = nodes.method(node, "prod", _at(replace(value, axes=value.axes[: len(value.axes) - count]), [dim]))
    elif operator in ("and", "or"):
        verb = "all" if operator == "and" else "any"
        node = nodes.method(node, verb, *([] if everything else [_at(value, dims)]))
    else:
        node = _extreme(low, value, operator, dims, everything)
    return replace(value, node=node, axes=left, dtype=dtype)


def _extreme(low: Lowering, value: Value, operator: str, dims: Sequence[int], everything: bool) -> ast.expr:
    """The gradient goes to the first of equal ones, as in the loop; for numbers and integers nobody asks."""
    plain = value.number or not value.floating or not low.context.tracked
    if plain:
        return nodes.method(value.node, f"a{operator}", *([] if everything else [_at(value, dims)]))
    node = value.node
    if len(dims) > 1:
        if list(dims) != list(range(dims[0], dims[0] + len(dims))):
            raise DeclinedError("an extreme over axes that are no neighbours")
        node = nodes.method(node, "flatten", nodes.constant(dims[0]), nodes.constant(dims[-1]))
    return nodes.attribute(nodes.method(node, operator, nodes.constant(dims[0])), "values")


def _at(value: Value, dims: Sequence[int]) -> ast.expr:
    """The axes, the last one as -1 where nothing of a cell follows it."""
    total = len(value.axes) + value.cell
    places = [nodes.constant(-1 if dim == total - 1 and len(dims) == 1 and total > 1 else dim) for dim in dims]
    return places[0] if len(places) == 1 else ast.Tuple(list(places), ast.Load())


# --- where it goes ---------------------------------------------------------------------------------------------------


def _into_temporary(writer: Writer, vector: Vector, kept: Sequence[Loop]) -> None:
    name, operator = vector.statement.target.base, vector.statement.operator
    value = reduction(writer, vector, kept)
    before = writer.context.known.get(name)
    if before is None:
        raise DeclinedError(f"{name} is added to before the loop has set it")
    if set(before.value.axes) - set(kept):
        raise DeclinedError(f"{name} belongs to iterations of another loop")
    low = writer.lowering(kept)
    starts_at = nodes.number(before.value.node)
    if operator == "-" and starts_at == 0:
        result = value.with_node(ast.UnaryOp(ast.USub(), value.node))
    elif (operator in ("+", "*") and starts_at == NEUTRAL[operator]) or _is_infinite(before, operator):
        result = value
        if before.value.dtype == "float" and kind_of(value.dtype) < 2:
            result = low.arithmetic(OPERATORS[operator](), value, before.value) if operator in OPERATORS else value
    elif operator in OPERATORS:
        result = low.arithmetic(OPERATORS[operator](), before.value, value)
    elif operator in ("and", "or"):
        result = low.both([before.value, value], ast.And() if operator == "and" else ast.Or())
    else:
        result = first_wins(low, operator, before.value, value)
    _mark_extremes(writer, operator, value)
    writer.remember(name, result, None)


def _is_infinite(before: Temporary, operator: str) -> bool:
    return operator in ("min", "max") and infinity(before.value.node) == NEUTRAL[operator]


def _mark_extremes(writer: Writer, operator: str, value: Value) -> None:
    if operator in ("min", "max") and value.floating:
        note = f"where an element is NaN, Python's {operator} passes over it and torch's does not"
        if note not in writer.unsafe:
            writer.unsafe.append(note)


def _into_name(writer: Writer, vector: Vector) -> None:
    """``total = x.sum()`` where it began at nothing, else ``total += x.sum()``."""
    statement = vector.statement
    name, operator = statement.target.base, statement.operator
    value = reduction(writer, vector, [])
    _mark_extremes(writer, operator, value)
    made = writer.made(name)
    node = as_python(writer, value)
    writer.stored.add(name)
    starts_at_nothing = made is not None and made.number and made.fill == NEUTRAL.get(operator, object())
    if starts_at_nothing and made is not None and operator in ("+", "*", "-", "min", "max"):
        whole_dtype = isinstance(made.fill, int) or value.floating or operator in ("min", "max")
        if whole_dtype:
            writer.dropped[name] = made
            writer.assign(name, ast.UnaryOp(ast.USub(), node) if operator == "-" else node)
            return
    if operator in ("and", "or") and isinstance(statement.node, ast.If):
        node = nodes.method(value.node, "item") if isinstance(node, ast.Call) and node is value.node else node
        if made is not None and made.number and made.fill == (operator == "and"):
            writer.dropped[name] = made
            writer.assign(name, node)
            return
    if operator in ("min", "max"):
        chosen_by_python = nodes.call(nodes.name(operator), nodes.name(name), node)
        writer.assign(name, chosen_by_python)
    elif operator in ("and", "or"):
        writer.assign(name, ast.BoolOp(ast.And() if operator == "and" else ast.Or(), [nodes.name(name), node]))
    elif isinstance(statement.node, ast.AugAssign):
        writer.assign(name, node, f"{operator}=")
    else:
        writer.assign(name, ast.BinOp(nodes.name(name), OPERATORS[operator](), node))


def _into_elements(writer: Writer, vector: Vector, stretch: Stretch) -> None:
    operator = vector.statement.operator
    value = reduction(writer, vector, stretch.order)
    made = writer.made(stretch.base) if stretch.whole else None
    _mark_extremes(writer, operator, value)
    if made is not None and not made.number and made.fill == NEUTRAL.get(operator) and operator in ("+", "*"):
        store(writer, stretch, value, made)
    elif operator in OPERATORS:
        write_added(writer, stretch, value, operator)
    elif operator in ("min", "max"):
        low = writer.lowering(stretch.order)
        old = Value(stretch.node, stretch.order, stretch.cell, False, stretch.dtype, sure=stretch.sure)
        store(writer, stretch, first_wins(low, operator, old, value), None)
    else:
        raise DeclinedError(f"{operator} into elements")
