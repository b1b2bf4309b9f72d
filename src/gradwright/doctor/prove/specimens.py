"""Real inputs made small, and their neighbours: other lengths, layouts, dtypes and awkward values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Args = tuple[Any, ...]
Key = tuple[int, int]

LONGEST = {0: 12, 1: 12, 2: 12, 3: 6, 4: 4}
INT_SIZES_FROM = 5  # an int argument this large that equals a length is taken to be that length


def is_real_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def tensors(args: Sequence[Any]) -> list[torch.Tensor]:
    return [value for value in args if isinstance(value, torch.Tensor)]


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


def lengths(args: Sequence[Any], keys: Keys, longest: int) -> dict[Key, int]:
    """A new length for each axis, at most ``longest``; axes that ``keys`` tells apart get different lengths."""
    found = {
        keys(size, axis, tensor.dim()) for tensor in tensors(args) for axis, size in enumerate(tensor.shape) if size > 1
    }
    chosen: dict[Key, int] = {}
    for key in sorted(found):
        length = min(key[0], longest)
        while length > 1 and length in chosen.values():
            length -= 1
        chosen[key] = length
    return chosen


def cut(args: Sequence[Any], keys: Keys, new: dict[Key, int]) -> Args:
    """The leading part of every tensor; an int that equals a length becomes the new length."""
    as_int = {size: length for (size, _), length in sorted(new.items(), reverse=True) if size >= INT_SIZES_FROM}

    def smaller(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            wanted = [slice(0, new.get(keys(size, axis, value.dim()), size)) for axis, size in enumerate(value.shape)]
            return value.detach()[tuple(wanted)].clone() if wanted else value.detach().clone()
        return as_int.get(value, value) if type(value) is int else value

    return tuple(smaller(value) for value in args)


def random(shape: Sequence[int], seed: int) -> torch.Tensor:
    """Standard normal numbers, float64."""
    return torch.randn(tuple(shape), dtype=torch.float64, generator=torch.Generator().manual_seed(seed), device="cpu")


@dataclass(frozen=True)
class Neighbour:
    label: str
    args: Args


def with_values(args: Args, make: Callable[[torch.Tensor, int], torch.Tensor]) -> Args:
    """Real tensors get other values; ``make(float64 normal numbers, position)`` gives them."""
    result = []
    for position, value in enumerate(args):
        if is_real_tensor(value):
            fresh = make(random(value.shape, 17 + position), position)
            value = torch.empty_like(value).copy_(fresh)
        result.append(value)
    return tuple(result)


def _planted(*numbers: float) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Normal numbers, with about a third of them replaced, at other places in each tensor."""

    def make(normal: torch.Tensor, position: int) -> torch.Tensor:
        flat = normal.reshape(-1).clone()
        for turn, number in enumerate(numbers):
            flat[(turn + position) % 3 :: 3 * len(numbers)] = number
        return flat.reshape(normal.shape)

    return make


VALUES: tuple[tuple[str, Callable[[torch.Tensor, int], torch.Tensor]], ...] = (
    ("normal values", lambda normal, _: normal),
    ("positive values", lambda normal, _: normal.abs() % 1 * 0.9 + 0.05),
    ("larger values", lambda normal, _: normal * 4),
    ("0 and -0", _planted(0.0, -0.0)),
    ("ties", lambda normal, _: normal.round()),
    ("all ties", lambda normal, _: torch.ones_like(normal)),
    ("inf", _planted(float("inf"))),
    ("-inf", _planted(float("-inf"))),
    ("NaN", _planted(float("nan"))),
    ("subnormal numbers", _planted(1e-40, -1e-42)),
)


def _map(args: Args, change: Callable[[torch.Tensor], torch.Tensor]) -> Args:
    return tuple(change(value) if is_real_tensor(value) else value for value in args)


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() and tensor.shape[0] else tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, every second number of a storage that holds NaN between them."""
    if not tensor.dim():
        return tensor
    shape = (*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
    storage = torch.full(shape, float("nan"), dtype=tensor.dtype, device=tensor.device)
    storage[..., 1::2] = tensor
    return storage[..., 1::2]


LAYOUTS = (("transposed", transposed), ("expanded", expanded), ("every second of NaN", poisoned))


def other_lengths(args: Args) -> Iterator[Neighbour]:
    """Each axis alone 1 and 0 long, then all of them."""
    seen = set()
    for keys in (from_the_right, from_the_left, same_length):
        usual = lengths(args, keys, longest_axis(args))
        for length in (1, 0):
            changes = [{**usual, key: length} for key in usual] + [dict.fromkeys(usual, length)]
            for change in changes:
                small = cut(args, keys, change)
                shapes = tuple(tuple(tensor.shape) for tensor in tensors(small))
                if shapes not in seen:
                    seen.add(shapes)
                    yield Neighbour(f"an axis {length} long", with_values(small, VALUES[0][1]))


def not_square(args: Args) -> Iterator[Args]:
    """Small versions whose axes differ in length, likely ones first."""
    for keys in (from_the_right, from_the_left, same_length):
        yield cut(args, keys, lengths(args, keys, longest_axis(args)))


def other_dtypes(args: Args) -> Iterator[Neighbour]:
    present = {value.dtype for value in args if is_real_tensor(value)}
    for dtype in (torch.float64, torch.float32):
        if present != {dtype}:
            yield Neighbour("", _map(args, lambda tensor, dtype=dtype: tensor.to(dtype)))  # type: ignore[misc]


def other_layouts(args: Args) -> Iterator[Neighbour]:
    for label, change in LAYOUTS:
        yield Neighbour(label, _map(args, change))


def describe(args: Sequence[Any]) -> str:
    """``float32 [12, 11], float32 [11]``."""
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in tensors(args))
