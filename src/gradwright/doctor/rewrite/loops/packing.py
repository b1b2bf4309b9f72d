"""Places that are counted as they are filled, ``out[k] = v; k += 1``: what is written lies there as in a list."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops.expressions import literal, names_of
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.renaming import occurrences
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Do, Item


def packed(tree: list[Item], starts: Mapping[str, ast.expr]) -> list[Item]:
    """``out[k] = v`` becomes an append, at the place where ``k`` starts, if ``k`` does nothing but count them.

    Not where the counter is plain arithmetic of one loop's variable. ``starts``: integers that names were given above.
    """
    everywhere = occurrences(tree)
    for block in [*_blocks(tree, 0)]:
        for counter in [item.target.base for item in block if isinstance(item, Action) and _adds_one(item)]:
            writes = [item for item in block if isinstance(item, Action) and _is_written_at(item, counter)]
            start = literal(starts[counter]) if counter in starts else None
            alone = everywhere[counter] == len(writes) + 1 and _are_apart(writes, everywhere)
            places = [index for index, item in enumerate(block) if item in writes or _counts(item, counter)]
            if start is None or start < 0 or not writes or not alone or not _counts(block[places[-1]], counter):
                continue
            for write in writes:
                place = Place(write.target.base, (starts[counter], *write.target.indices[1:]), write.target.node)
                block[block.index(write)] = replace(write, kind="append", target=place)
    return tree


def _blocks(items: list[Item], around: int) -> Iterator[list[Item]]:
    """The blocks inside two loops, or a loop and a branch."""
    for item in items:
        inner = [item.body] if isinstance(item, Do) else [item.then, item.other] if isinstance(item, Branch) else []
        for block in inner:
            if around:
                yield block
            yield from _blocks(block, around + 1)


def _counts(item: Item, counter: str) -> bool:
    return isinstance(item, Action) and _adds_one(item) and item.target.base == counter


def _adds_one(action: Action) -> bool:
    place = action.target
    return action.kind == "accumulate" and action.operator == "+" and not place.indices and literal(action.value) == 1


def _is_written_at(action: Action, counter: str) -> bool:
    """``out[k] = v``, ``out[k, 1] = v``, ``out[k, :] = v``."""
    if action.kind != "assign" or action.also or not action.target.indices:
        return False
    first, *rest = action.target.indices
    steady = all(literal(one) is not None or (isinstance(one, ast.Slice) and not names_of(one)) for one in rest)
    return isinstance(first, ast.Name) and first.id == counter and steady


def _are_apart(writes: Sequence[Action], everywhere: Counter[str]) -> bool:
    """Whether no array is used otherwise, and no element of one written twice in an iteration."""
    for base in {one.target.base for one in writes}:
        columns = [[literal(index) for index in one.target.indices[1:]] for one in writes if one.target.base == base]
        one_each = len(columns) == 1 or all(len(column) == 1 and (column[0] or 0) >= 0 for column in columns)
        if "." in base or everywhere[base] != len(columns) or not one_each:
            return False
        if len(columns) > 1 and len({column[0] for column in columns} - {None}) < len(columns):
            return False
    return True
