"""Real inputs made small: cut so that what belonged together still does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.prove.copies import own_copies
from gradwright.doctor.prove.trees import is_real_tensor, rebuilt, tensors
from gradwright.ground.tensors import storage_of

__all__ = [
    "Args",
    "cut",
    "describe",
    "is_real_tensor",
    "lengths",
    "longest_axis",
    "random",
    "same_length",
    "tells_axes_apart",
    "tensors",
]

Args = tuple[Any, ...]
Key = tuple[int, int]

LONGEST = {0: 12, 1: 12, 2: 12, 3: 6, 4: 4}
INT_SIZES_FROM = 5  # a number this large that equals a length is taken to be that length


def longest_axis(args: Sequence[Any]) -> int:
    """How long an axis may stay, so that a loop over all elements takes a few hundred iterations."""
    return LONGEST.get(max((tensor.dim() for tensor in tensors(args)), default=0), 3)


def same_length(size: int, axis: int, rank: int) -> Key:
    return (size, 0)


def from_the_right(size: int, axis: int, rank: int) -> Key:
    return (size, axis - rank)


def from_the_left(size: int, axis: int, rank: int) -> Key:
    return (size, axis)


Keys = Callable[[int, int, int], Key]
KEYS: tuple[Keys, ...] = (from_the_right, from_the_left, same_length)


def _found(args: Sequence[Any], keys: Keys) -> list[Key]:
    sizes = {keys(size, axis, t.dim()) for t in tensors(args) for axis, size in enumerate(t.shape) if size > 1}
    return sorted(sizes)


def lengths(args: Sequence[Any], keys: Keys, longest: int) -> dict[Key, int]:
    """A new length for each axis, at most ``longest``; axes that ``keys`` tells apart get different lengths."""
    chosen: dict[Key, int] = {}
    for key in _found(args, keys):
        length = min(key[0], longest)
        while length > 1 and length in chosen.values():
            length -= 1
        chosen[key] = length
    return chosen


def tells_axes_apart(args: Sequence[Any]) -> tuple[int, int]:
    """The larger, the less a trace at ``args`` can mistake: an axis of length 1 for none, or one axis for another."""
    sizes = [size for tensor in tensors(args) for size in tensor.shape]
    return (-sum(size <= 1 for size in sizes), len(set(sizes)))


def related(args: Sequence[Any], longest: int) -> Iterator[dict[Key, int]]:
    """Lengths that keep what the sizes have to do with each other, likely ones first.

    All apart, in the same order; the same differences (a window's ``n - k + 1``); the same ratios (a stride, heads);
    all alike.
    """
    sizes = [size for size, _ in _found(args, same_length)]
    long = [size for size in sizes if size > longest]
    yield {(size, 0): longest + long.index(size) if size > longest else size for size in sizes}
    if not long:
        return
    yield {(size, 0): size if size <= longest else longest + size - long[0] for size in sizes}
    common = math.gcd(*long)
    if common > 1 and long[-1] // common <= 4 * longest:
        unit = max(1, longest * common // long[-1])
        yield {(size, 0): size // common * unit if size > longest else size for size in sizes}
    yield {(size, 0): min(size, longest) for size in sizes}


@dataclass(frozen=True)
class Cut:
    """How arguments are made smaller. ``ints``: numbers that equal a length become the new one.

    ``own``: lengths of single axes, (number of the tensor, axis), before those of ``new``; ``own_ints``: what becomes
    of numbers of a size, before what ``new`` says.
    """

    keys: Keys
    new: tuple[tuple[Key, int], ...]
    ints: bool = True
    own: tuple[tuple[tuple[int, int], int], ...] = ()
    own_ints: tuple[tuple[int, int], ...] = ()

    def __call__(self, args: Sequence[Any]) -> Args:
        return cut(args, self.keys, dict(self.new), ints=self.ints, own=dict(self.own), own_ints=dict(self.own_ints))


def cuts(args: Sequence[Any], longest: int) -> Iterator[Cut]:
    """Ways to cut, likely ones first."""
    seen = []
    for new in related(args, longest):
        if new not in seen:
            seen.append(new)
            yield Cut(same_length, tuple(new.items()))
            if _has_ints(args, new):
                yield Cut(same_length, tuple(new.items()), ints=False)


def _has_ints(args: Sequence[Any], new: dict[Key, int]) -> bool:
    wanted = {size for size, _ in new if size >= INT_SIZES_FROM}
    hits: list[int] = []

    def note(value: int) -> int:
        if value in wanted:
            hits.append(value)
        return value

    rebuilt(args, lambda _, tensor: tensor, note)
    return bool(hits)


def cut(
    args: Sequence[Any],
    keys: Keys,
    new: dict[Key, int],
    *,
    ints: bool = True,
    own: Mapping[tuple[int, int], int] | None = None,
    own_ints: Mapping[int, int] | None = None,
) -> Args:
    """The leading part of every tensor; an int that equals a length becomes the new length (if ``ints``).

    Lists are cut as vectors are. Indices stay within what they index. Tensors that share memory still do.
    """
    own = own or {}
    as_int = {size: length for (size, _), length in sorted(new.items(), reverse=True) if size >= INT_SIZES_FROM}
    as_int |= own_ints or {}
    given = tensors(args)
    places = [storage_of(tensor) for tensor in given]
    if len(set(places)) < len(places):
        given = own_copies(given)

    def smaller(index: int, old: Tensor) -> Tensor:
        value = given[index].detach()
        wanted = [new.get(keys(size, axis, value.dim()), size) for axis, size in enumerate(value.shape)]
        wanted = [own.get((index, axis), length) for axis, length in enumerate(wanted)]
        part = value[tuple(slice(0, length) for length in wanted)] if wanted else value
        if places.count(places[index]) == 1 or not places[index]:
            part = part.clone()
        if part.dtype in (torch.int64, torch.int32) and part.numel():
            part = within(part, as_int)
        if isinstance(old, torch.nn.Parameter):
            return torch.nn.Parameter(part, old.requires_grad)
        return part.requires_grad_(old.requires_grad)

    def fewer(items: Sequence[Any]) -> Sequence[Any]:
        length = len(items)
        kept = items[: new.get(keys(length, 0, 1), length)] if length >= INT_SIZES_FROM else items
        if kept and all(type(item) is int for item in kept):
            return list(within(torch.tensor(kept), as_int).tolist())
        return kept

    number = (lambda value: as_int.get(value, value)) if ints else None
    return rebuilt(args, smaller, number, fewer)


def within(indices: Tensor, as_int: dict[int, int]) -> Tensor:
    """Whole numbers that may be indices, so that they stay below the new length of what they were below before."""
    largest = int(indices.max())
    above = [size for size in as_int if size > largest]
    if largest < 1 or not above:
        return indices
    length = as_int[min(above)]
    if length > largest or length < 1:
        return indices
    return torch.where(indices < 0, indices, indices % length)


def random(shape: Sequence[int], seed: int) -> Tensor:
    """Standard normal numbers, float64."""
    return torch.randn(tuple(shape), dtype=torch.float64, generator=torch.Generator().manual_seed(seed), device="cpu")


def not_square(args: Args, longest: int | None = None) -> Iterator[Cut]:
    """Small versions whose axes differ in length, likely ones first."""
    longest = longest or longest_axis(args)
    for keys in KEYS:
        new = lengths(args, keys, longest)
        yield Cut(keys, tuple(new.items()))
        if _has_ints(args, new):
            yield Cut(keys, tuple(new.items()), ints=False)


def describe(args: Sequence[Any]) -> str:
    """``float32 [12, 11], float32 [11]``."""
    found = [f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in tensors(args)]
    shown = ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
    return shown or "no tensor"
