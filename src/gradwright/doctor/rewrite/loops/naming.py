"""Which names are one value per round: counters become arithmetic, a name used for two things becomes two names."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gradwright.doctor.rewrite.loops.counters import counted
from gradwright.doctor.rewrite.loops.expressions import fresh, name, names_of
from gradwright.doctor.rewrite.loops.packing import packed
from gradwright.doctor.rewrite.loops.renaming import bases_of, occurrences, rename
from gradwright.doctor.rewrite.loops.tree import (
    Action,
    Branch,
    Do,
    Item,
    actions,
    assigned,
    exposed,
    loops_in,
    reads_of,
)
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen


def named(
    items: Sequence[Item], wanted: frozenset[str], taken: set[str], seen: Seen, starts: Mapping[str, ast.expr]
) -> tuple[list[Item], frozenset[str]]:
    """The tree with every temporary under a name of its own, and the temporaries.

    ``starts``: integers that names were given above the nest. A temporary is assigned before it is read in every round
    of some loop, and read nowhere after that round.
    Raises: DeclinedError, if a loop's variable is read outside of its loop.
    """
    tree = counted(packed([*items], starts), starts, seen)
    tree = _without_dead(tree, wanted, seen)
    outside = exposed(tree) & {loop.variable for loop in loops_in(tree)}
    own_start = {inner for loop in loops_in(tree) for inner in names_of(loop.start) | names_of(loop.stop)}
    for variable in sorted((outside - own_start) | (wanted & {loop.variable for loop in loops_in(tree)})):
        raise DeclinedError(f"{variable} is read outside the loop that counts it")
    temporaries: set[str] = set()
    _name_apart(tree, set(wanted), tree, taken, temporaries, seen)
    return tree, frozenset(temporaries)


def live_before(items: Sequence[Item], after: set[str]) -> set[str]:
    """Names whose value before the items may still be read."""
    live = set(after)
    for item in reversed(items):
        if isinstance(item, Action):
            if item.kind == "assign":
                live -= assigned(item)
            live |= reads_of(item)
        elif isinstance(item, Branch):
            live = live_before(item.then, live) | live_before(item.other, live) | names_of(item.test)
        else:
            live = _live_at_end(item, live) | names_of(item.loop.start) | names_of(item.loop.stop)
    return live


def _live_at_end(do: Do, after: set[str]) -> set[str]:
    """Names that may be read after a round of the loop: in the next one, or after the loop."""
    again = live_before(do.body, after) - {do.loop.variable}
    return after | (live_before(do.body, after | again) - {do.loop.variable})


def _name_apart(
    items: Sequence[Item], after: set[str], tree: list[Item], taken: set[str], temporaries: set[str], seen: Seen
) -> None:
    live = set(after)
    for item in reversed(items):
        if isinstance(item, Do):
            end = _live_at_end(item, live)
            own = (
                {one for action in actions(item.body) for one in assigned(action)}
                - exposed(item.body, {item.loop.variable})
                - live
            )
            everywhere, here = occurrences(tree), occurrences(item.body)
            new = {one: fresh(one, taken) for one in sorted(own) if everywhere[one] != here[one]}
            if new:
                rename(item.body, {one: name(other) for one, other in new.items()}, seen)
            temporaries |= {new.get(one, one) for one in own}
            _name_apart(item.body, end - own, tree, taken, temporaries, seen)
        elif isinstance(item, Branch):
            _name_apart(item.then, live, tree, taken, temporaries, seen)
            _name_apart(item.other, live, tree, taken, temporaries, seen)
        live = live_before([item], live)


def _without_dead(tree: list[Item], wanted: frozenset[str], seen: Seen) -> list[Item]:
    """Without values that nobody reads: what a counter was at the end, where a while loop began."""
    read = occurrences(tree)
    writes: dict[str, list[Action]] = {}
    for action in actions(tree):
        for one in bases_of(action):
            writes.setdefault(one, []).append(action)
    dead = {
        one
        for one, found in writes.items()
        if one not in wanted and read[one] == len(found) and all(_only_names(action, seen) for action in found)
    }

    def kept(items: list[Item]) -> list[Item]:
        result: list[Item] = []
        for item in items:
            if isinstance(item, Action):
                result += [] if item.target.base in dead else [item]
            elif isinstance(item, Do):
                result.append(Do(item.loop, kept(item.body)))
            else:
                result.append(Branch(item.test, kept(item.then), kept(item.other), item.node))
        return result

    return kept(tree)


def _only_names(action: Action, seen: Seen) -> bool:
    """Whether an action only gives a name another value; what adds to a tensor in place is seen by others."""
    if action.target.indices or "." in action.target.base or action.also:
        return False
    if action.kind == "assign":
        return True
    found = seen.of(action.target.node) or seen.live_ins.get(action.target.base)
    counted = found is not None and found.type == "int"
    return action.kind == "accumulate" and (counted or isinstance(action.node, ast.Assign))
