"""Names that count the rounds of a loop become arithmetic of its variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from gradwright.doctor.rewrite.loops.expressions import (
    added,
    call,
    literal,
    made,
    name,
    names_of,
    number,
    subtracted,
    times,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.renaming import bases_of, occurrences, rename
from gradwright.doctor.rewrite.loops.terms import size_of
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Do, Item, actions, loops_in
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted


def counted(tree: list[Item], starts: Mapping[str, ast.expr], seen: Seen) -> list[Item]:
    """Names that grow by the same integer in every round become arithmetic of the loop's variable.

    ``starts``: integers that names were given above the nest.
    """
    while True:
        found = next(_counters(tree, (), tree, seen), None)
        if found is None:
            return tree
        do, action = found
        counter = action.target.base
        step = action.value if action.operator == "+" else _negative(action.value)
        start = _value_before(tree, do, counter) or (starts.get(counter) if do in tree else None) or name(counter)
        body = [*do.body]
        place = body.index(action)
        for position, item in enumerate(body):
            if item is not action:
                step_here = _plain(step, item)
                grown = added(start, _product(step_here, _rounds(do.loop)))
                rename([item], {counter: grown if position < place else added(grown, step_here)}, seen)
        do.body.remove(action)
        last = Action("accumulate", action.target, _product(step, _whole(do.loop)), action.node, "+")
        _insert_after(tree, do, last)


def _whole(loop: Loop) -> ast.expr:
    """How many rounds the loop has."""
    if literal(loop.start) == 0 and loop.step == 1 and size_of(loop.stop)[0]:
        return loop.stop
    return call("len", call("range", loop.start, loop.stop, *([number(loop.step)] if loop.step != 1 else [])))


def _plain(step: ast.expr, item: Item) -> ast.expr:
    """The step without Python's care for a range that is none: inside that loop it has rounds."""
    if isinstance(item, Do) and item.loop.step == 1 and ast.dump(step) == ast.dump(_whole(item.loop)):
        return subtracted(item.loop.stop, item.loop.start)
    return step


def _negative(step: ast.expr) -> ast.expr:
    known = literal(step)
    return number(-known) if known is not None else times(-1, step)


def _product(step: ast.expr, rounds: ast.expr) -> ast.expr:
    known, often = literal(step), literal(rounds)
    if known is not None:
        return times(known, rounds)
    return times(often, step) if often is not None else made(ast.BinOp(rounds, ast.Mult(), step))


def _value_before(items: Sequence[Item], do: Do, counter: str) -> ast.expr | None:
    """The integer that the counter is given right before its loop, in the same block."""
    for position, item in enumerate(items):
        if item is do:
            for earlier in reversed(items[:position]):
                writes = [one for one in actions([earlier]) if counter in bases_of(one)]
                if writes:
                    plain = writes[0] is earlier and writes[0].kind == "assign" and literal(writes[0].value) is not None
                    return writes[0].value if plain else None
            return None
        for block in _blocks(item):
            found = _value_before(block, do, counter)
            if found is not None:
                return found
    return None


def _blocks(item: Item) -> list[list[Item]]:
    return [item.body] if isinstance(item, Do) else [item.then, item.other] if isinstance(item, Branch) else []


def _rounds(loop: Loop) -> ast.expr:
    """How many rounds of the loop came before this one."""
    variable = name(loop.variable)
    if loop.step == 1:
        return subtracted(variable, loop.start)
    if loop.step == -1:
        return subtracted(loop.start, variable)
    far = subtracted(variable, loop.start) if loop.step > 0 else subtracted(loop.start, variable)
    return ast.fix_missing_locations(ast.BinOp(far, ast.FloorDiv(), number(abs(loop.step))))


def _counters(
    items: Sequence[Item], loops: tuple[Do, ...], tree: Sequence[Item], seen: Seen
) -> Iterator[tuple[Do, Action]]:
    for item in items:
        if isinstance(item, Do):
            for inner in item.body:
                if isinstance(inner, Action) and _counts(inner, item, loops, tree, seen):
                    yield item, inner
            yield from _counters(item.body, (*loops, item), tree, seen)
        elif isinstance(item, Branch):
            yield from _counters([*item.then, *item.other], loops, tree, seen)


def _counts(action: Action, do: Do, loops: tuple[Do, ...], tree: Sequence[Item], seen: Seen) -> bool:
    """Whether the action is the only one in its loop to change an integer, by the same number in every round."""
    counter = action.target.base
    if action.kind != "accumulate" or action.operator not in "+-" or action.target.indices or "." in counter:
        return False
    changing = {base for one in actions(do.body) for base in bases_of(one)} | {loop.variable for loop in loops_in([do])}
    if literal(action.value) == 0 or not isinstance(action.node, ast.AugAssign | ast.Assign):
        return False
    if literal(action.value) is None and (names_of(action.value) & changing or not _is_count(action.value, seen)):
        return False
    if [one for one in actions(do.body) if counter in bases_of(one)] != [action]:
        return False
    found = seen.of(action.target.node) or seen.live_ins.get(counter)
    if found is None or found.type != "int":
        return False
    # Only what is read inside the loop needs it: a plain count is a sum like any other.
    return occurrences(do.body)[counter] > 1


def _is_count(step: ast.expr, seen: Seen) -> bool:
    """An integer: the rounds of an inner loop, a size, what was one in the run."""
    if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult):
        return _is_count(step.left, seen) and _is_count(step.right, seen)
    if literal(step) is not None or size_of(step)[0] or (isinstance(step, ast.Call) and dotted(step.func) == "len"):
        return True
    found = what(step, seen) if isinstance(step, ast.Name) else None
    return found is not None and found.type == "int"


def _insert_after(items: list[Item], do: Do, last: Action) -> bool:
    for position, item in enumerate(items):
        if item is do:
            items.insert(position + 1, last)
            return True
        if any(_insert_after(block, do, last) for block in _blocks(item)):
            return True
    return False
