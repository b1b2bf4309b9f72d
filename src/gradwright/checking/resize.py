"""The same call at other sizes: slices of the given tensors are left out, or taken twice.

Whole slices, not numbers drawn anew: a row that is a unit quaternion stays one, and a submatrix that takes the same
rows as columns stays symmetric. An axis has a size that may change only if the subject treats all places along it
alike (``is_interchangeable``): re and im, or the four numbers of a quaternion, are no batch of two or four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.structure import structure_of
from gradwright.checking.trial import TimeUp, Trial

Picks = Mapping[int, Tensor]
Axes = Mapping[int, Mapping[int, int]]


class NoSuchCall(Exception):
    """These arguments mean something that another size would break."""


def resized(args: Sequence[Any], sizes: Mapping[int, int], seed: int, axes: Axes | None = None) -> tuple[Any, ...]:
    """``args`` with every size in ``sizes`` replaced wherever it occurs, or only at ``axes``: {position: {axis: size}}.

    A tuple of ints among the arguments follows; integer tensors go on pointing at what they pointed at.
    Raises: NoSuchCall.
    """
    generator = torch.Generator().manual_seed(seed)
    picks = {old: _picked(old, new, generator) for old, new in sizes.items()}
    if axes is not None:
        return tuple(_cut(value, axes.get(at, {}), generator) for at, value in enumerate(args))
    return tuple(_selected(value, picks) if isinstance(value, Tensor) else _followed(value, sizes) for value in args)


def _picked(old: int, new: int, generator: torch.Generator) -> Tensor:
    """Which of ``old`` slices are the ``new`` ones, in order."""
    if new > old:
        return torch.arange(new, device="cpu") % old
    return torch.randperm(old, generator=generator, device="cpu")[:new].sort().values


def _cut(value: Any, axes: Mapping[int, int], generator: torch.Generator) -> Any:
    if not isinstance(value, Tensor) or not axes:
        return value
    found = value.detach()
    for axis, new in axes.items():
        found = found.index_select(axis, _picked(value.shape[axis], new, generator).to(value.device))
    return _as_before(value, found)


def _selected(value: Tensor, picks: Picks) -> Tensor:
    found = value.detach()
    for axis, size in enumerate(value.shape):
        if size in picks:
            found = found.index_select(axis, picks[size].to(value.device))
    if not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool):
        return _repointed(value, found, picks)
    return _as_before(value, found)


def _as_before(value: Tensor, found: Tensor) -> Tensor:
    """Of the same structure and type."""
    kind = structure_of(value)
    if kind is not None and found.numel() and not kind.holds(found.to("cpu", torch.float64)):
        if kind.square and (found.dim() < 2 or found.shape[-1] != found.shape[-2]):
            raise NoSuchCall(f"it is {kind.name}")
        found = kind.restore(found.to(torch.float64)).to(found.dtype)
    return torch.nn.Parameter(found, False) if isinstance(value, torch.nn.Parameter) else found


def _repointed(value: Tensor, found: Tensor, picks: Picks) -> Tensor:
    """Indices into an axis that has changed: to where their slice is now, else to any; permutations stay such."""
    if not value.numel() or not found.numel():
        return found
    flat, most = value.reshape(-1), int(value.max())
    ordered = flat.numel() > 2 and bool((flat.diff() >= 0).all()) and most > int(flat[0])
    changed = {size: pick for size, pick in picks.items() if pick.numel() != size}
    if ordered and int(flat[0]) == 0 and most in changed:
        raise NoSuchCall("it looks like offsets into another axis")
    if flat.numel() > 2 and torch.equal(flat.sort().values.cpu().long(), torch.arange(flat.numel(), device="cpu")):
        return found.reshape(-1).argsort(stable=True).argsort().to(value.dtype).reshape(found.shape)
    size = next((size for size in sorted(changed) if 0 <= most <= size), None)
    if size is None:
        return found
    pick = changed[size]
    if most == size:  # lengths along that axis
        return found.clamp(max=pick.numel())
    place = torch.arange(size, device="cpu") % pick.numel()
    place[pick] = torch.arange(pick.numel(), device="cpu")
    moved = place.to(value.device)[found.clamp(min=0).long()].to(value.dtype)
    return torch.where(found >= 0, moved, found)


def _followed(value: Any, sizes: Mapping[int, int]) -> Any:
    """A tuple or list of ints is a shape; an int by itself may be anything, and its size is not changed at all."""
    if type(value) in (tuple, list, torch.Size) and all(type(item) is int for item in value):
        return type(value)(sizes.get(item, item) for item in value)
    return value


def is_interchangeable(trial: Trial, size: int, seed: int) -> bool:
    """Does the subject treat all places along the axes of this size alike: when the slices of all inputs change places,
    do those of each output so, too, or stay what they are? Asked of a random order, and of two places exchanged.

    Cost: some 3 to 15 calls. Raises: TimeUp; what the forward raises.
    """
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed), device="cpu")
    swap = torch.arange(size, device="cpu")
    swap[[0, -1]] = swap[[-1, 0]]
    plain = trial.at(list(trial.original))
    return all(_follows(plain, trial, size, one) for one in (swap, order) if one.diff().ne(1).any())


def _follows(plain: Trial, trial: Trial, size: int, order: Tensor) -> bool:
    """Do the outputs follow this order of the slices, if what points at them follows too, or if it does not?"""
    shuffled = [_permuted(value, size, order) if isinstance(value, Tensor) else value for value in trial.original]
    renamed = [
        order.argsort().to(value.device)[value.clamp(min=0).long()].where(value >= 0, value.long()).to(value.dtype)
        if isinstance(value, Tensor) and _points_into(value, size)
        else value
        for value in shuffled
    ]
    same = all(a is b for a, b in zip(shuffled, renamed, strict=True))
    for args in (shuffled,) if same else (shuffled, renamed):
        other = trial.at(args).values
        outputs = zip(plain.values, plain.cotangents, other, strict=True)
        if all(_close(v, o) or _close(_moved_along(v, c, size, order), o) for v, c, o in outputs):
            return True
    return False


def _moved_along(values: Tensor, like: Tensor, size: int, order: Tensor) -> Tensor:
    """A flat output (a complex number is two reals), of the shape of ``like``, with its slices in another order."""
    shape = (*like.shape, 2) if like.is_complex() else like.shape
    return _permuted(values.reshape(shape), size, order, like.dim()).reshape(-1)


def _points_into(value: Tensor, size: int) -> bool:
    integer = not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)
    return integer and value.numel() > 0 and int(value.max()) < size


def _permuted(value: Tensor, size: int, order: Tensor, axes: int | None = None) -> Tensor:
    """Along each of the first ``axes`` axes, or all, that have this size."""
    found = value.detach()
    for axis, length in enumerate(value.shape[:axes]):
        if length == size:
            found = found.index_select(axis, order.to(value.device))
    return found


def _close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    largest = max(float(one.abs().max()), 1e-300) if one.numel() else 1.0
    return one.numel() == 0 or float((one - other).abs().max()) <= 1e-4 * largest


def has_idle_slices(trial: Trial, given: Sequence[Any]) -> bool:
    """Are there slices, beyond the size that an axis had in ``given``, that no output depends on? Raises: TimeUp."""
    for index in trial.wanted:
        value, before = trial.original[index], given[index]
        for axis, size in enumerate(value.shape):
            if size <= before.shape[axis]:
                continue
            beyond = torch.zeros(value.shape, dtype=torch.float64, device="cpu")
            beyond.narrow(axis, before.shape[axis], size - before.shape[axis]).fill_(1.0)
            if value.is_complex():
                beyond = beyond.unsqueeze(-1).expand(*beyond.shape, 2)
            try:
                moved = trial.evaluate(index, 0.1 * trial.entry_scale(index) * beyond.reshape(-1))
            except TimeUp:
                raise
            except Exception:  # values that the forward was never meant for
                continue
            if all(torch.equal(a, b) for a, b in zip(moved, trial.values, strict=True)):
                return True
    return False
