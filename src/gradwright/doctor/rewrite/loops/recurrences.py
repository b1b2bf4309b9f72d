"""Values that run along a loop: partial sums, products and extrema that are read on the way."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence

from gradwright.doctor.rewrite.loops.actions import accumulation
from gradwright.doctor.rewrite.loops.components import components
from gradwright.doctor.rewrite.loops.dependence import Dependences, Edge
from gradwright.doctor.rewrite.loops.expressions import names_of, same
from gradwright.doctor.rewrite.loops.ir import Loop, Place, Statement
from gradwright.doctor.rewrite.loops.meetings import Access, Case
from gradwright.doctor.rewrite.loops.systems import variable

Chains = Mapping[Statement, tuple[Loop, ...]]


def without_running(
    statements: Sequence[Statement],
    inside: Sequence[Edge],
    loop: Loop,
    left: Chains,
    axes: Chains,
    dependences: Dependences,
) -> tuple[Statement, tuple[Edge, ...]] | None:
    """An accumulation whose partial results are kept for every round of ``loop``, and the edges that remain then.

    Its readers need this round's value (those before it in the text: the value of the round before), and no longer
    stand in the way of the next one. None, if that does not take it out of its cycle.
    """
    for one in statements:
        if one.kind not in ("accumulate", "extremum") or left[one] != (loop,):
            continue
        targets = dependences.effects[one].updates
        bases = {target.base for target in targets}
        own = {edge for edge in inside if edge.source is edge.sink is one and {edge.first, edge.second} <= {*targets}}
        others = [edge for edge in inside if edge not in own]
        if any(access.base in bases for access in dependences.effects[one].reads):
            continue
        if any(
            update.base in bases
            for other in statements
            if other is not one
            for update in dependences.effects[other].updates
        ):
            continue
        if any(loop.variable in names_of(index) for target in targets for index in target.indices):
            continue
        if any(dependences.collide(one, (*axes[one], loop), outer) for outer in axes[one]):
            continue
        edges = []
        for edge in others:
            writes, reads = edge.source is one and edge.first in targets, edge.sink is one and edge.second in targets
            if writes or reads:
                read = edge.second if writes else edge.first
                written = edge.first if writes else edge.second
                if not _alike(read, written):
                    break
                if writes and edge.kind == "flow":
                    edges.append(dataclasses.replace(edge, carrier=None))
            else:
                edges.append(edge)
        else:
            if len(edges) < len(inside) and not _in_cycle(one, statements, edges):
                return one, tuple(edges)
    return None


def _alike(one: Access, other: Access) -> bool:
    return (
        one.base == other.base
        and len(one.indices) == len(other.indices)
        and all(same(a, b) for a, b in zip(one.indices, other.indices, strict=True))
    )


def _in_cycle(one: Statement, statements: Sequence[Statement], edges: Sequence[Edge]) -> bool:
    group = next(group for group in components(statements, edges) if one in group)
    return len(group) > 1 or any(edge.source is edge.sink is one for edge in edges)


def recurrence(
    statement: Statement, inside: Sequence[Edge], loop: Loop, left: tuple[Loop, ...], dependences: Dependences
) -> Statement | None:
    """``out[i] = out[i - 1] + x[i]`` as ``out[i] = (the one before) + x[i]``: operator and term, nothing else.

    None, if the element before is needed in another way, or any other element of ``out``.
    """
    if (
        statement.guards
        or statement.kind not in ("assign", "accumulate")
        or any(edge.carrier is not loop for edge in inside)
    ):
        return None
    target = dependences.effects[statement].updates[0]
    if any(edge.kind != "flow" or edge.first is not target for edge in inside):
        return None
    prior = {edge.second.node for edge in inside if edge.second is not target}
    if len({ast.dump(node) for node in prior}) != 1:
        return None
    access = next(edge.second for edge in inside if edge.second is not target)
    if not _one_before(target, access, statement, loop, dependences):
        return None
    value, operator = statement.value, ""
    if statement.kind == "accumulate":
        # x[i] += x[i - 1]: the term is what x[i] was.
        if not same(value, access.node) or statement.operator not in ("+", "*", "max", "min"):
            return None
        operator, value = statement.operator, _as_read(statement.target.node)
    else:
        operator, value = accumulation(Place(access.base, access.indices, access.node), value)
    if operator not in ("+", "-", "*", "/", "max", "min"):
        return None
    mine = [read for read in dependences.effects[statement].reads if read.base == target.base]
    rest = [read for read in mine if not _alike(read, access) and not _alike(read, target)]
    again = sum(same(node, access.node) for node in ast.walk(value))
    if rest or again or any(target.base in names_of(index) for index in target.indices):
        return None
    return dataclasses.replace(statement, kind="assign", operator=operator, value=value)


def _as_read(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Subscript)
    return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)


def _one_before(target: Access, read: Access, statement: Statement, loop: Loop, dependences: Dependences) -> bool:
    """Whether ``read`` is what ``target`` was one round of ``loop`` before, and no index counts from the end."""
    if target.base != read.base or len(target.indices) != len(read.indices):
        return False
    moved = 0
    for mine, theirs in zip(target.indices, read.indices, strict=True):
        if same(mine, theirs) and loop.variable not in names_of(mine):
            continue
        if isinstance(mine, ast.Slice) or isinstance(theirs, ast.Slice):
            return False
        case = Case()
        one = dependences.meetings.form(mine, statement, "1", case)
        two = dependences.meetings.form(theirs, statement, "1", case)
        own = next((name for name in one.factors if name.startswith(f"{loop.variable} {id(loop)} ")), None)
        difference = one - two
        if own is None or difference.factors or difference.constant != one.factors[own] * loop.step:
            return False
        if one.factors != variable(own).times(one.factors[own]).factors and any(
            "unknown" in name for name in one.factors
        ):
            return False
        moved += 1
    return moved > 0 and all(dependences.meetings.never_negative(statement, access) for access in (target, read))
