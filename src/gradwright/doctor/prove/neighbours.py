"""Neighbours of small inputs: other values, layouts, dtypes and lengths, and how they are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.prove.copies import own_copies
from gradwright.doctor.prove.linking import Group, with_lengths
from gradwright.doctor.prove.specimens import Args, Cut, random
from gradwright.doctor.prove.trees import is_real_tensor, rebuilt, tensor_names, tensors
from gradwright.ground.tensors import storage_of

SHORT_LIST = 4  # of floats: settings rather than data
WINDOW = 7  # axes up to this length may be those of a window
EQUAL_ELEMENTS = "an input has equal elements"
MOST_SINGLE = 3  # tensors that get awkward values alone

Make = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Neighbour:
    """``special``: what is special about it, to follow "where"; "" of ordinary inputs. ``loud``: the same of sizes that
    the run did not have: a candidate may refuse these (raise), not take them wrongly."""

    label: str
    args: Args
    special: str = ""
    loud: str = ""


def _planted(*numbers: float) -> Make:
    """Normal numbers, with about a third of them replaced, at other places in each tensor."""

    def make(normal: Tensor, position: int) -> Tensor:
        flat = normal.reshape(-1).clone()
        for turn, number in enumerate(numbers):
            flat[(turn + position) % 3 :: 3 * len(numbers)] = number
        return flat.reshape(normal.shape)

    return make


def _single(number: float, part: float) -> Make:
    """Normal numbers but for one, so far into each tensor: where a mask leaves it out, nothing is to come of it."""

    def make(normal: Tensor, position: int) -> Tensor:
        flat = normal.reshape(-1).clone()
        flat[int(part * flat.numel()) : int(part * flat.numel()) + 1] = number
        return flat.reshape(normal.shape)

    return make


def _whole(normal: Tensor, position: int) -> Tensor:
    """Halves of whole numbers around 0, no two of them equal."""
    order = normal.reshape(-1).argsort()
    return ((order - order.numel() // 2) / 2).to(normal.dtype).reshape(normal.shape)


def normal_numbers(normal: Tensor, _: int) -> Tensor:
    return normal


# (label, what is special about a tensor with such values, the values)
VALUES: tuple[tuple[str, str, Make], ...] = (
    ("normal values", "", normal_numbers),
    ("positive values", "", lambda normal, _: normal.abs() % 1 * 0.9 + 0.05),
    ("larger values", "", lambda normal, _: normal * 4),
    ("0 and -0", "", _planted(0.0, -0.0)),
    ("subnormal numbers", "", _planted(1e-40, -1e-42)),
    ("ties", "has equal elements", lambda normal, _: normal.round()),
    ("all ties", "has equal elements", lambda normal, _: torch.ones_like(normal)),
    ("all 0", "has equal elements", lambda normal, _: torch.zeros_like(normal)),
    ("inf", "is inf", _planted(float("inf"))),
    ("-inf", "is -inf", _planted(float("-inf"))),
    ("NaN", "is NaN", _planted(float("nan"))),
    ("one inf", "is inf", _single(float("inf"), 0.0)),
    ("one NaN at first", "is NaN", _single(float("nan"), 0.0)),
    ("one NaN in the middle", "is NaN", _single(float("nan"), 0.5)),
    ("one NaN later", "is NaN", _single(float("nan"), 0.75)),
)
POSITIVE = VALUES[1][2]


def with_values(args: Args, make: Make, only: int | None = None) -> Args:
    """Real tensors get other values; ``make(float64 normal numbers, position)`` gives them.

    ``only``: the position of the one tensor that does, the others getting normal ones. Lists of floats are filled too.
    """
    given = tensors(args)
    places = [storage_of(tensor) for tensor in given]
    shared = {place for place in places if place and places.count(place) > 1}
    copies = own_copies(given) if shared else given

    def fill(position: int, value: Tensor) -> Tensor:
        if not is_real_tensor(value):
            return copies[position]
        kind = make if only in (None, position) else normal_numbers
        fresh = kind(random(value.shape, 17 + position), position)
        if places[position] in shared:
            if all(stride or size < 2 for size, stride in zip(value.shape, value.stride(), strict=True)):
                copies[position].copy_(fresh)
            return copies[position].requires_grad_(value.requires_grad)
        new = torch.empty_like(value.detach()).copy_(fresh)
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(new, value.requires_grad)
        return new.requires_grad_(value.requires_grad)

    def listed(items: Sequence[Any]) -> Sequence[Any]:
        if len(items) < SHORT_LIST or not all(type(item) is float for item in items):
            return items
        return list(make(random((len(items),), 11), 0).tolist())

    return rebuilt(args, fill, None, listed)


def awkward_values(args: Args, names: Sequence[str]) -> Iterator[Neighbour]:
    """Every kind of value in all tensors at once; whole numbers in one tensor at a time."""
    for label, special, make in VALUES:
        yield Neighbour(label, with_values(args, make), f"an input {special}" if special else "")
    for position, name in list(_real(args, names))[:MOST_SINGLE]:
        yield Neighbour(f"whole numbers in {name}", with_values(args, _whole, position))


def nudged_values(args: Args) -> Args:
    """Real numbers in float64, a last bit of their dtype apart from what they were; equal ones stay equal."""

    def nudged(value: Tensor) -> Tensor:
        wide = value.detach().double()
        return wide * (1 + 4 * torch.finfo(value.dtype).eps * torch.sin(1000 * wide))

    return _map(args, nudged)


def single_values(args: Args, names: Sequence[str], label: str) -> Iterator[Neighbour]:
    """The values of ``label`` in one tensor at a time: which of them makes the difference?"""
    for known, special, make in VALUES:
        if known == label:
            for position, name in _real(args, names):
                yield Neighbour(label, with_values(args, make, position), f"{name} {special}")


def _real(args: Args, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    for position, (name, value) in enumerate(zip(tensor_names(names, args), tensors(args), strict=True)):
        if is_real_tensor(value):
            yield position, name


def _map(args: Args, change: Callable[[Tensor], Tensor], kind: Callable[[Tensor], bool] = is_real_tensor) -> Args:
    return rebuilt(args, lambda _, value: change(value) if kind(value) else value)


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def expanded(tensor: Tensor) -> Tensor:
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() and tensor.shape[0] else tensor


def poisoned(tensor: Tensor) -> Tensor:
    """The same values, every second number of a storage that holds NaN between them."""
    if not tensor.dim():
        return tensor
    shape = (*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
    storage = torch.full(shape, float("nan"), dtype=tensor.dtype, device=tensor.device)
    storage[..., 1::2] = tensor.detach()
    return storage[..., 1::2]


EXPANDED = "expanded"
LAYOUTS = (("transposed", transposed), (EXPANDED, expanded), ("every second of NaN", poisoned))


def other_layouts(args: Args, names: Sequence[str], written: Collection[str]) -> Iterator[Neighbour]:
    """``written``: tensors that are written to, and are not expanded: no whole array can be written to one of these."""
    labels = tensor_names(names, args)
    for label, change in LAYOUTS:
        kept = written if change is expanded else ()
        yield Neighbour(
            label,
            rebuilt(args, lambda i, t: change(t) if is_real_tensor(t) and labels[i] not in kept else t),  # noqa: B023  # called at once
        )


def other_dtypes(args: Args) -> Iterator[Neighbour]:
    """All real tensors in one dtype that they did not have in the run."""
    present = {value.dtype for value in tensors(args) if is_real_tensor(value)}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        if present and present != {dtype}:
            changed = _map(args, lambda tensor, dtype=dtype: tensor.detach().to(dtype))  # type: ignore[misc]  # bound at once
            yield Neighbour("", changed, f"inputs are {str(dtype).removeprefix('torch.')}")


def other_indices(args: Args) -> Iterator[Neighbour]:
    """Whole numbers that meet: each twice, all the same, in reverse. Masks: all, none, every second."""
    given = tensors(args)
    if any(_whole_numbers(value) for value in given):
        yield Neighbour("indices twice", _map(args, lambda t: torch.where(t > 0, t // 2, t), _whole_numbers))
        yield Neighbour("one index only", _map(args, lambda t: torch.full_like(t, int(t.median())), _whole_numbers))
        yield Neighbour("indices in reverse", _map(args, lambda t: t.flip(0) if t.dim() else t, _whole_numbers))
    if any(value.dtype is torch.bool for value in given):
        kind = lambda t: t.dtype is torch.bool  # noqa: E731  # used three times below
        yield Neighbour("no mask set", _map(args, torch.zeros_like, kind))
        yield Neighbour("every mask set", _map(args, torch.ones_like, kind))
        yield Neighbour("every second mask set", _map(args, _every_second, kind))


def _whole_numbers(value: Tensor) -> bool:
    return value.dtype in (torch.int64, torch.int32) and value.numel() > 0


def _every_second(mask: Tensor) -> Tensor:
    return (torch.arange(mask.numel(), device=mask.device) % 2 == 0).reshape(mask.shape)


def other_lengths(args: Args, usual: Cut, groups: Sequence[Group], scales: Collection[int]) -> Iterator[Neighbour]:
    """Each group of axes alone 1 and 0 long, then all of them.

    ``scales``: numbers (a window, a stride) to which the code holds its sizes: a length below one that it was above of
    may be refused.
    """
    small = _small_tensors(args)
    for length in (1, 0):
        told = f"every axis is {length} long"
        ways = [(f"an axis {length} long", "", [(group, length)]) for group in groups]
        for label, loud, changes in [*ways, (told, "" if length else told, [(group, length) for group in groups])]:
            below = [c for group, _ in changes for c in (*scales, *small(group)) if group.size >= c > max(length, 1)]
            refusal = loud or (f"an axis is shorter than {below[0]}" if below else "")
            cut_further = with_lengths(usual, changes)(args)
            yield Neighbour(label, with_values(cut_further, normal_numbers), loud=refusal)


def _small_tensors(args: Args) -> Callable[[Group], list[int]]:
    """The sizes of tensors as small as a window, other than those a group has axes of."""
    shapes = [(index, t.shape) for index, t in enumerate(tensors(args)) if t.dim() and max(t.shape) <= WINDOW]

    def of(group: Group) -> list[int]:
        mine = {index for index, _ in group.axes}
        return [size for index, shape in shapes if index not in mine for size in shape]

    return of


def other_numbers(args: Args, names: Sequence[str]) -> Iterator[Neighbour]:
    """One number at a time is another: a length need not be that of an axis, a sum need not begin at 0."""
    for index, (name, value) in enumerate(zip(names, args, strict=True)):
        others: list[float] = []
        if type(value) is int:
            others = [value - 1, value + 1]
        elif type(value) is float:
            others = [1.5 * value + 0.25]
        for other in others:
            told = f"{name} is {other}, not {value}"
            yield Neighbour(told, (*args[:index], other, *args[index + 1 :]), loud=told)


def same_twice(args: Args, names: Sequence[str]) -> Iterator[Neighbour]:
    """Two arguments of the same shape and dtype that are one and the same tensor."""
    for first, one in enumerate(args):
        for second, other in enumerate(args[first + 1 :], first + 1):
            if not isinstance(one, Tensor) or not isinstance(other, Tensor) or storage_of(one) == storage_of(other):
                continue
            if one.shape == other.shape and one.dtype == other.dtype:
                changed = (*args[:second], one, *args[second + 1 :])
                yield Neighbour("", changed, f"{names[first]} and {names[second]} are one tensor")
