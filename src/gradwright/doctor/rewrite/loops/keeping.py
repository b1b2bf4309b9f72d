"""What a loop keeps of the best one goes where the loop put it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.stores import store
from gradwright.doctor.rewrite.loops.stretches import Stretch
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer


@dataclass(frozen=True)
class Kept:
    """``stretch``: where the target is elements of an array."""

    target: Place
    value: Value
    stretch: Stretch | None = None


def keep(writer: Writer, kept: Kept) -> None:
    """A temporary that nobody reads is not written."""
    name, value = kept.target.base, kept.value
    made = writer.made(kept.stretch.base if kept.stretch else name)
    if kept.stretch is not None:
        store(writer, kept.stretch, value, made if kept.stretch.whole else None)
        return
    if name in writer.context.temporaries:
        writer.context.known.pop(name, None)
        if is_kept(writer, name):
            writer.remember(name, value, None)
        return
    if made is not None and made.number:
        writer.dropped[name] = made
    if is_kept(writer, name):
        writer.stored.add(name)
        writer.assign(name, as_python(writer, value))


def as_python(writer: Writer, value: Value) -> ast.expr:
    """Python's numbers stay Python's numbers."""
    plain = value.dtype in ("int", "float") or (value.boolean and not isinstance(value.node, ast.Call))
    if value.number and not plain:
        return nodes.method(value.node, "item")
    return value.node


def is_kept(writer: Writer, name: str) -> bool:
    """Whether anybody reads it in the loop or after it."""
    if name in writer.nest.live_outs:
        return True
    expressions: list[ast.AST] = [
        e for s in writer.nest.statements if s.kind != "extremum" for e in (s.value, *s.guards, *s.target.indices)
    ]
    return any(name in nodes.names_in(expression) for expression in [*expressions, *writer.nest.tail])
