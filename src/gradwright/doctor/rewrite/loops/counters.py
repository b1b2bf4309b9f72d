"""Names that count the rounds of a loop become arithmetic of its variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from gradwright.doctor.rewrite.loops.expressions import added, call, literal, name, number, subtracted, times
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.renaming import bases_of, occurrences, rename
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Do, Item, actions
from gradwright.doctor.source.seen import Seen


def counted(tree: list[Item], starts: Mapping[str, ast.expr], seen: Seen) -> list[Item]:
    """Names that grow by the same integer in every round become arithmetic of the loop's variable.

    ``starts``: integers that names were given above the nest.
    """
    while True:
        found = next(_counters(tree, (), tree, seen), None)
        if found is None:
            return tree
        do, action = found
        counter, step = action.target.base, literal(action.value)
        assert step is not None
        step = step if action.operator == "+" else -step
        start = _value_before(tree, do, counter) or (starts.get(counter) if do in tree else None) or name(counter)
        rounds = _rounds(do.loop)
        body = [*do.body]
        place = body.index(action)
        grown = added(start, times(step, rounds))
        rename(body[:place], {counter: grown}, seen)
        rename(body[place + 1 :], {counter: added(grown, number(step))}, seen)
        do.body.remove(action)
        loop = do.loop
        bounds = [loop.start, loop.stop, *([number(loop.step)] if loop.step != 1 else [])]
        whole = call("len", call("range", *bounds))
        last = Action("accumulate", action.target, times(step, whole), action.node, "+")
        _insert_after(tree, do, last)


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
    """Whether the action is the only one in its loop to change an integer, by a constant, in every round."""
    counter = action.target.base
    if action.kind != "accumulate" or action.operator not in "+-" or action.target.indices or "." in counter:
        return False
    if not literal(action.value) or [one for one in actions(do.body) if counter in bases_of(one)] != [action]:
        return False
    found = seen.of(action.target.node) or seen.live_ins.get(counter)
    if found is None or found.type != "int":
        return False
    # Only what is read inside the loop needs it: a plain count is a sum like any other.
    return occurrences(do.body)[counter] > 1


def _insert_after(items: list[Item], do: Do, last: Action) -> bool:
    for position, item in enumerate(items):
        if item is do:
            items.insert(position + 1, last)
            return True
        if any(_insert_after(block, do, last) for block in _blocks(item)):
            return True
    return False
