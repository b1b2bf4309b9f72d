"""A tensor that grows by rows in every iteration: all of them are joined to it at once."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.expressions import first_free
from gradwright.doctor.rewrite.loops.ir import Statement, Vector
from gradwright.doctor.rewrite.loops.lists import dense, joined, shows_another, tensor_of
from gradwright.doctor.rewrite.loops.storage import Storage
from gradwright.doctor.rewrite.loops.targets import Made, dtype_root, first_value, used_between
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import key_of
from gradwright.ground.syntax import dotted

JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.vstack", "torch.row_stack", "torch.hstack"})


def grows(writer: Writer, statement: Statement) -> bool:
    """Whether an append joins rows to a tensor, rather than putting something in a list."""
    return _join_of(writer, statement) is not None


def _join_of(writer: Writer, statement: Statement) -> ast.Call | None:
    for node in ast.walk(statement.node):
        if isinstance(node, ast.Call) and writer.context.frame.module_of(node.func) in JOINS and node.args:
            parts = node.args[0]
            first = parts.elts[0] if isinstance(parts, ast.List | ast.Tuple) and parts.elts else parts
            if dotted(first) == statement.target.base:
                return node
    return None


def write_grown(writer: Writer, vector: Vector, value: Value) -> None:
    """``out = torch.cat([out, rows])``. An iteration adds a row, or several as one tensor."""
    name = vector.statement.target.base
    join = _join_of(writer, vector.statement)
    assert join is not None
    rank = _rank(writer, join)
    if dotted(join.func).endswith("hstack") and rank > 1:
        raise DeclinedError(f"{name} grows along another axis than its first: {ast.unparse(join)}")
    if value.number:
        value = _as_rows(writer, vector.statement, value)
    if value.axes or value.cell not in (rank, rank + 1):
        raise DeclinedError(f"it is not known how many rows {name} grows by: {ast.unparse(join)}")
    rows = joined(value, 0, writer.context.torch) if value.cell == rank + 1 else value
    start = first_value(writer.context.frame, writer.at, name)
    made = writer.made(name)
    writer.stored.add(name)
    if isinstance(start, ast.Constant) and start.value is None:
        if shows_another(rows.node) or writer.depth:
            raise DeclinedError(f"{name} may be another name for what it is filled with")
        _unless_none(writer, name, rows, None)
        return
    live = writer.context.seen.live_ins.get(name)
    if live is None or live.tensor is None:
        raise DeclinedError(f"{name} is no tensor that was seen")
    together = nodes.call(
        nodes.attribute(writer.context.torch, "cat"), ast.List([nodes.name(name), rows.node], ast.Load())
    )
    if made is not None and _is_empty_alike(writer, made, rows):
        if not used_between(writer.context.frame, made.statement, writer.at, name):
            writer.dropped[name] = made
        writer.assign(name, dense(rows, writer.context.torch).node)
    elif len(live.tensor.shape) == rank:
        writer.assign(name, together)
    elif live.tensor.shape == (0,):
        _unless_none(writer, name, rows, together)  # of no rows at all it keeps its one axis
    else:
        raise DeclinedError(f"{name} has another number of axes before the loop")


def write_packed(writer: Writer, vector: Vector, value: Value) -> None:
    """``out[:len(rows)] = rows``: the places that the loop counted as it filled them."""
    place = vector.statement.target
    live = writer.context.seen.live_ins.get(place.base)
    if live is None or live.tensor is None or place.base in writer.context.temporaries or writer.depth:
        raise DeclinedError(f"{place.base}, which the loop writes into, is no tensor that was seen")
    storage = Storage(writer.nest, writer.context.seen)
    others = {one.base for effects in storage.effects.values() for one in (*effects.reads, *effects.updates)}
    for other in sorted(others - {place.base}):
        if storage.share(place.base, other):
            raise DeclinedError(f"{place.base} and {other} may be the same memory")
    start, rest = nodes.integer(place.indices[0]) or 0, list(place.indices[1:])
    if value.axes or value.cell + sum(not isinstance(one, ast.Slice) for one in rest) != len(live.tensor.shape):
        raise DeclinedError(f"{place.base} is not given whole elements")
    node = nodes.method(value.node, "detach") if value.live else value.node
    rows = _named(writer, node)
    if rows.id == place.base:
        raise DeclinedError(f"{place.base} is moved within itself")
    length: ast.expr = nodes.call(nodes.name("len"), rows)
    beyond = ast.BinOp(nodes.constant(start), ast.Add(), length) if start else length
    stretch = ast.Slice(nodes.constant(start) if start else None, beyond, None)
    writer.stored.add(place.base)
    writer.assign(writer.code(nodes.subscript(nodes.name(place.base), [stretch, *rest])), rows)


def _rank(writer: Writer, join: ast.Call) -> int:
    found = {
        len(one.tensor.shape) for one in writer.context.seen.values.get(key_of(join), ()) if one.tensor is not None
    }
    if len(found) != 1:
        raise DeclinedError(f"it was not seen what {ast.unparse(join)} gives")
    return found.pop()


def _as_rows(writer: Writer, statement: Statement, value: Value) -> Value:
    """``torch.tensor([number])``."""
    for node in ast.walk(statement.node):
        if isinstance(node, ast.Call) and writer.context.frame.module_of(node.func) == "torch.tensor":
            return replace(tensor_of(writer.lowering(()), node, value), number=False)
    raise DeclinedError("Python's numbers are joined to a tensor")


def _unless_none(writer: Writer, name: str, rows: Value, together: ast.expr | None) -> None:
    """Where there are any rows."""
    node = _named(writer, rows.node)
    if isinstance(together, ast.Call):
        together = nodes.call(together.func, ast.List([nodes.name(name), node], ast.Load()))
    writer.write(f"if len({node.id}):")
    writer.depth += 1
    writer.assign(name, together or node)
    writer.depth -= 1


def _named(writer: Writer, rows: ast.expr) -> ast.Name:
    if isinstance(rows, ast.Name):
        return rows
    found = first_free(("rows", "grown"), writer.printer.words | writer.reads_so_far())
    writer.assign(found, rows)
    return nodes.name(found)


def _is_empty_alike(writer: Writer, made: Made, rows: Value) -> bool:
    """Whether the tensor has no rows before the loop, and the dtype of those it gets, as the text shows."""
    value = made.statement.value if isinstance(made.statement, ast.Assign | ast.AnnAssign) else None
    sizes = value.args[:1] if isinstance(value, ast.Call) else []
    sizes = list(sizes[0].elts[:1]) if sizes and isinstance(sizes[0], ast.Tuple | ast.List) else sizes
    if not sizes or nodes.integer(sizes[0]) != 0 or not made.like:
        return False
    frame = writer.context.frame
    root = dtype_root(frame, made.like, made.statement)
    return any(dtype_root(frame, carrier, writer.at) == root for carrier in rows.carriers)
