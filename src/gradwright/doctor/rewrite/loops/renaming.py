"""Names in the tree of actions: how often they occur, and other names or values put in their place."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gradwright.doctor.rewrite.loops.expressions import replaced
from gradwright.doctor.rewrite.loops.ir import Loop, Place
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Item, actions
from gradwright.doctor.source.seen import Seen


def bases_of(action: Action) -> set[str]:
    return {place.base.split(".", 1)[0] for place in action.places}


def occurrences(items: Sequence[Item]) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in _expressions(items):
        found.update(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
    for action in actions(items):
        found.update(place.base.split(".", 1)[0] for place in action.places)
    return found


def _expressions(items: Sequence[Item]) -> Iterator[ast.expr]:
    for item in items:
        if isinstance(item, Action):
            yield from item.expressions
        elif isinstance(item, Branch):
            yield item.test
            yield from _expressions([*item.then, *item.other])
        else:
            yield item.loop.start
            yield item.loop.stop
            yield from _expressions(item.body)


def rename(items: Sequence[Item], names: Mapping[str, ast.expr], seen: Seen) -> None:
    """Replace names by names (or by what they stand for, where they are only read), in place."""
    for item in items:
        if isinstance(item, Action):
            renamed = substituted(item, names, seen)
            item.target, item.value, item.also, item.operator = (
                renamed.target, renamed.value, renamed.also, renamed.operator
            )  # fmt: skip
        elif isinstance(item, Branch):
            item.test = replaced(item.test, names, seen)
            rename([*item.then, *item.other], names, seen)
        else:
            loop = item.loop
            start, stop = replaced(loop.start, names, seen), replaced(loop.stop, names, seen)
            if start is not loop.start or stop is not loop.stop:
                new = Loop(loop.variable, start, stop, loop.step, loop.node)
                item.loop = new
            rename(item.body, names, seen)


def substituted(action: Action, names: Mapping[str, ast.expr], seen: Seen) -> Action:
    def moved(place: Place) -> Place:
        base, dot, rest = place.base.partition(".")
        other = names.get(base)
        if isinstance(other, ast.Name):
            base = other.id
        indices = tuple(replaced(index, names, seen) for index in place.indices)
        node = replaced(place.node, {key: value for key, value in names.items() if isinstance(value, ast.Name)}, seen)
        return Place(base + dot + rest, indices, node)

    new = copy.copy(action)
    new.target = moved(action.target)
    new.value = replaced(action.value, names, seen)
    new.also = tuple((moved(place), replaced(value, names, seen)) for place, value in action.also)
    if action.kind == "append" and action.operator:
        new.operator = ast.unparse(replaced(ast.parse(action.operator, mode="eval").body, names, seen))
    return new
