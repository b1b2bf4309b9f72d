"""Which axes of equal length go together? Those whose lengths can't differ unless the original or the change refuses.

In the run ``x`` may have been square, and as long as ``w``: that proves nothing. Axes of one length are given two, a
few of them at a time, in all ways; what both the original and the change still take tells which are bound to others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradwright.doctor.prove.specimens import Args, Cut, tensors

MOST_TOGETHER = 3
MOST_WAYS = 36

Axis = tuple[int, int]  # the number of the tensor, the number of its axis


@dataclass(frozen=True)
class Group:
    """Axes that were ``size`` long in the run and may change together; ``ints``: numbers of that size go with them."""

    size: int
    axes: frozenset[Axis]
    ints: bool = False


def axes_by_size(args: Sequence[Any]) -> dict[int, list[Axis]]:
    found: dict[int, list[Axis]] = {}
    for index, tensor in enumerate(tensors(args)):
        for axis, size in enumerate(tensor.shape):
            if size > 1:
                found.setdefault(size, []).append((index, axis))
    return found


def splits(args: Args, usual: Cut) -> Iterator[Group]:
    """Ways to make some of the axes of one length differ from the others, fewest first."""
    ways: list[Group] = []
    for size, axes in axes_by_size(args).items():
        if dict(usual.new).get((size, 0), size) < 3 or len(axes) < 2:
            continue
        for together in range(1, min(MOST_TOGETHER, len(axes) - 1) + 1):
            for chosen in itertools.combinations(axes, together):
                ways += [Group(size, frozenset(chosen), ints) for ints in ((False, True) if usual.ints else (False,))]
    yield from sorted(ways, key=lambda one: len(one.axes))[:MOST_WAYS]


def with_lengths(usual: Cut, changes: Sequence[tuple[Group, int]]) -> Cut:
    """A cut in which each group has its own length."""
    own = tuple((axis, length) for group, length in changes for axis in group.axes)
    ints = tuple((group.size, length) for group, length in changes if group.ints)
    return Cut(usual.keys, usual.new, usual.ints, own, ints)


def shorter(usual: Cut, group: Group, by: int = 1) -> int:
    """A length for a group, other than the usual one of its size."""
    return max(2, dict(usual.new).get((group.size, 0), group.size) - by)


def minimal(groups: Sequence[Group]) -> list[Group]:
    """The groups that hold no other; each axis in one of them only."""
    kept: list[Group] = []
    for group in sorted(groups, key=lambda one: len(one.axes)):
        if all(group.axes.isdisjoint(other.axes) for other in kept):
            kept.append(group)
    return kept


def all_groups(args: Args, usual: Cut, found: Sequence[Group]) -> list[Group]:
    """Every axis in a group: the found ones, and per length what is left."""
    taken = {axis for group in found for axis in group.axes}
    with_ints = {group.size for group in found if group.ints}
    rest = [
        Group(size, frozenset(axes) - taken, usual.ints and size not in with_ints)
        for size, axes in axes_by_size(args).items()
    ]
    return [*found, *(group for group in rest if group.axes)]
