"""Where the best begins as one of those that it is compared with: they need nothing in front of them."""

from __future__ import annotations

import ast
import copy

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.calls import is_pure_call
from gradwright.doctor.rewrite.loops.indices import indexed
from gradwright.doctor.rewrite.loops.ir import Loop, Statement
from gradwright.doctor.rewrite.loops.targets import first_value
from gradwright.doctor.rewrite.loops.writing import Writer


def first_of(writer: Writer, statement: Statement, along: Loop) -> int | None:
    """The iteration whose value the best begins as: the loop's first, or the one before it; None for other beginnings.

    Cost: a walk over the statements between.
    """
    low, start = nodes.integer(along.start), begins_as(writer, statement.target.base)
    if statement.target.indices or low is None or along.step != 1 or start is None:
        return None
    if not _means_the_same(writer, statement.target.base, start):
        return None
    for begin in (low, low - 1):
        if begin >= 0 and nodes.same(_in_iteration(statement.value, along, begin), _plain(start)):
            return begin
    return None


def begins_as(writer: Writer, name: str) -> ast.expr | None:
    """The expression that a name was set to before the loop along which it is compared."""
    known = writer.context.known.get(name)
    if known is not None:
        return known.source
    return None if writer.depth else first_value(writer.context.frame, writer.at, name)


def element_before(writer: Writer, statement: Statement, along: Loop) -> int | None:
    """For ``out[i] = max(out[i - 1], x[i])``: the place before the loop's first, if ``out`` was given ``x``'s there."""
    low, base = nodes.integer(along.start), statement.target.base
    index = statement.target.indices[0]
    alone = len(statement.target.indices) == 1 and isinstance(index, ast.Name) and index.id == along.variable
    if not alone or not low or along.step != 1 or writer.depth:
        return None
    before = _before(writer)
    wanted = nodes.subscript(ast.parse(base, mode="eval").body, [nodes.constant(low - 1)])
    for place, one in reversed(list(enumerate(before))):
        if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.targets[0], ast.Subscript):
            continue
        target = ast.Subscript(one.targets[0].value, one.targets[0].slice, ast.Load())
        given = nodes.same(_plain(target), wanted)
        given = given and nodes.same(_in_iteration(statement.value, along, low - 1), _plain(one.value))
        names = nodes.names_in(one.value) | nodes.names_in(target)
        untouched = not nodes.names_in(one.value) & writer.context.written
        later = all(_leaves_alone(writer, other, names) for other in before[place + 1 :])
        return low - 1 if given and untouched and later else None
    return None


def _before(writer: Writer) -> list[ast.stmt]:
    """The statements of the loop's own block above it."""
    block = writer.context.frame.block_of(writer.at)
    return block[: next(place for place, one in enumerate(block) if one is writer.at)]


def _means_the_same(writer: Writer, name: str, start: ast.expr) -> bool:
    """Whether nothing between there and the loop may have changed what the expression is."""
    names = nodes.names_in(start)
    if names & writer.context.written:
        return False
    if name in writer.context.known:
        set_here = [one.target.base for one in writer.nest.statements]
        return all(set_here.count(one) < 2 for one in names)
    before = _before(writer)
    later = next((place for place, one in enumerate(before) if any(inner is start for inner in ast.walk(one))), None)
    return later is not None and all(_leaves_alone(writer, one, names) for one in before[later + 1 :])


def _leaves_alone(writer: Writer, statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement only gives other names values that are computed."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Pass):
        return False
    stored = [one for one in ast.walk(statement) if isinstance(getattr(one, "ctx", None), ast.Store)]
    bound = {one.id for one in stored if isinstance(one, ast.Name)}
    if bound & names or not all(isinstance(one, ast.Name | ast.Tuple) for one in stored):
        return False
    calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call)]
    return all(is_pure_call(one, writer.context.frame) or _makes_a_tensor(one) for one in calls)


def _makes_a_tensor(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_")


def _in_iteration(value: ast.expr, loop: Loop, number: int) -> ast.expr:
    """The value in the iteration ``number`` of the loop."""

    class Fixed(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's own name for it
            return nodes.constant(number) if node.id == loop.variable else node

    return _plain(Fixed().visit(copy.deepcopy(value)))


def _plain(node: ast.expr) -> ast.expr:
    """Without positions, and ``x[0][1]`` as ``x[0, 1]``."""
    if isinstance(node, ast.Subscript):
        base, parts = indexed(node)
        return nodes.subscript(base, parts)
    return node
