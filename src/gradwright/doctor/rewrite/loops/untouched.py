"""What a buffer is a copy of, if that is still the same when the loop is over."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops.ir import Statement
from gradwright.doctor.rewrite.loops.sizes import FILLED, LIKE, SIZED
from gradwright.doctor.rewrite.loops.targets import Made, find_made
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.ground.syntax import dotted

_HARMLESS = LIKE | SIZED | FILLED | {"clone", "len", "size", "dim", "numel", "float", "int", "min", "max"}


def copied_from(writer: Writer, made: Made) -> str:
    """``x`` for ``y = x.clone()``; "" if the buffer is no copy, or x may have changed since."""
    call = getattr(made.statement, "value", None)
    if not made.like or not isinstance(call, ast.Call) or call.args or call.keywords:
        return ""
    if (
        not isinstance(call.func, ast.Attribute)
        or call.func.attr != "clone"
        or made.like not in writer.context.seen.live_ins
    ):
        return ""
    block = writer.context.frame.block_of(writer.at)
    first = next(place for place, one in enumerate(block) if one is made.statement)
    last = next(place for place, one in enumerate(block) if one is writer.at)
    quiet = all(_only_computes(one) for one in block[first + 1 : last])
    return made.like if quiet and all(_writes_its_own(writer, one) for one in writer.nest.statements) else ""


def _only_computes(statement: ast.stmt) -> bool:
    """Whether it binds names, and calls nothing that may write into a tensor."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    bound = [part for one in targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
    calls = [dotted(node.func).rsplit(".", 1)[-1] for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return all(isinstance(one, ast.Name) for one in bound) and set(calls) <= _HARMLESS


def _writes_its_own(writer: Writer, statement: Statement) -> bool:
    """Whether a statement of the nest binds a name, or writes into a buffer that was made for it."""
    if statement.kind == "append" or statement.also:
        return False
    if statement.target.indices:
        made = find_made(writer.context.frame, writer.at, statement.target.base)
        return made is not None and not made.number
    return isinstance(statement.node, ast.Assign)
