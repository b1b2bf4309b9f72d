"""A dict that a loop fills, a key an iteration: ``d.update(zip(keys, values))``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.expressions import indices_of
from gradwright.doctor.rewrite.loops.ir import Loop, Vector
from gradwright.doctor.rewrite.loops.targets import used_between
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering

_DICTS = ("dict", "OrderedDict", "defaultdict")


def write_keyed(writer: Writer, vector: Vector, collected: Callable[[ast.expr], Value]) -> None:
    """Of equal keys the last one counts, as in the loop. ``collected``: what all iterations compute, in their order.

    Raises: DeclinedError, where the keys are no numbers, nor the items of a list.
    """
    statement = vector.statement
    name = statement.target.base
    live = writer.context.seen.live_ins.get(name)
    if live is None or live.type not in _DICTS:
        raise DeclinedError(f"{name} is no dict that was there before the loop")
    value = collected(statement.value)
    if value.axes or (value.number and value.cell != 1):
        raise DeclinedError(f"{name} is filled by keys in a way that has no form for whole tensors")
    values = nodes.method(value.node, "tolist") if value.number else value.node
    key = ast.parse(statement.operator, mode="eval").body
    pairs = _in_step(writer.lowering(vector.axes), key, vector, values)
    if pairs is None:
        keys = collected(key)
        if not keys.number or keys.axes or keys.cell != 1:
            raise DeclinedError("a dict whose keys are no numbers, nor the items of a list")
        pairs = nodes.call(nodes.name("zip"), nodes.method(keys.node, "tolist"), values)
    made = writer.made(name)
    writer.stored.add(name)
    if made is not None and made.makes_dict:
        if not used_between(writer.context.frame, made.statement, writer.at, name):
            writer.dropped[name] = made
        writer.assign(name, nodes.call(nodes.name("dict"), pairs))
    else:
        writer.write(writer.code(nodes.method(ast.parse(name, mode="eval").body, "update", pairs)))


def _in_step(low: Lowering, key: ast.expr, vector: Vector, values: ast.expr) -> ast.expr | None:
    """The keys with their values, where one loop goes through the keys, from the first to the last."""
    loop = vector.axes[0]
    if len(vector.axes) > 1 or vector.statement.guards or loop.step != 1:
        return None
    if isinstance(key, ast.Name) and key.id == loop.variable:
        start = low.expression(loop.start).node
        return nodes.call(nodes.name("enumerate"), values, *([] if nodes.integer(start) == 0 else [start]))
    keys = _items(low, key, loop)
    return None if keys is None else nodes.call(nodes.name("zip"), keys, values)


def _items(low: Lowering, key: ast.expr, loop: Loop) -> ast.expr | None:
    """``names`` for ``names[i]``, where ``i`` runs from its first item on."""
    if not isinstance(key, ast.Subscript) or not low.stays_the_same(key.value):
        return None
    (index, *more) = indices_of(key)
    begins = nodes.integer(loop.start) == 0 and loop.step == 1
    if more or not begins or not isinstance(index, ast.Name) or index.id != loop.variable:
        return None
    described = low.seen.live_ins.get(nodes.root_name(key.value)) if isinstance(key.value, ast.Name) else None
    return key.value if described is not None and described.type in ("list", "tuple") else None
