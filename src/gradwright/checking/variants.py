"""Other calls, made out of the given one: its sizes changed together wherever they occur, one option at a time.

NOTE [a size is known elsewhere]: a callable that closes over a module, or names 64 in its code, may be right at 64
only, and no call at 63 would be a call of it. So a size that stands in its constants, in what it closes over or in an
object among its arguments stays what it is; so does one that an int among the arguments equals, which may count
something or be a mode. Tuples of ints are shapes, and follow.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.context import is_function
from gradwright.checking.redraw import redrawn
from gradwright.checking.resize import Axes, NoSuchCall, resized
from gradwright.checking.structure import structure_of
from gradwright.ground.outside import named_outside

_REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Variant:
    """``args`` of another call; ``key``: what it asks; ``told`` says in words what is other about it, beside shapes.

    ``may_raise``: a backward that raises there may be right to, though the forward does not (an axis or a reduction
    that only the backward can't do; matrices that are square by agreement).
    """

    args: tuple[Any, ...]
    key: str
    told: str = ""
    may_raise: bool = False

    def is_longer(self, given: Sequence[Any]) -> bool:
        """Has a tensor an axis that is longer than in ``given``?"""
        pairs = [(new, old) for new, old in zip(self.args, given, strict=True) if isinstance(new, Tensor)]
        return any(a > b for new, old in pairs for a, b in zip(new.shape, old.shape, strict=True))


# --- sizes -----------------------------------------------------------------------------------------------------------


def free_sizes(subject: Any, args: Sequence[Any]) -> list[int]:
    """The sizes above 1 that may change, the most frequent first. See NOTE [a size is known elsewhere]."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    found = Counter(size for tensor in tensors for size in tensor.shape if size > 1)
    known = set() if is_function(subject) else _numbers(subject, set())
    for tensor in tensors:
        if tensor.ndim > 1 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool):
            known |= set(tensor.shape)  # a map of indices (a permutation, its inverse) belongs to what it points into
    for value in args:
        if isinstance(value, int) or not isinstance(value, (Tensor, float, str, tuple, list, type(None))):
            known |= _numbers(value, set())
    return [size for size, _ in found.most_common() if size not in known]


def _numbers(value: Any, seen: set[int], depth: int = 6) -> set[int]:
    """Every int that ``value`` knows of: in its constants, closures, attributes, in shapes of tensors it holds."""
    if id(value) in seen or not depth or isinstance(value, (bool, str, bytes, type, types.ModuleType)):
        return set()
    seen.add(id(value))
    if isinstance(value, int):
        return {value}
    if isinstance(value, Tensor):
        return set(value.shape)
    if isinstance(value, (tuple, list, set, frozenset)):
        inner: list[Any] = list(value)
    elif isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, types.CodeType):
        inner = list(value.co_consts)
    elif isinstance(value, types.FunctionType):
        inner = [value.__code__, value.__defaults__, *_data(named_outside(value).values())]
    elif isinstance(value, types.MethodType):
        inner = [value.__self__, value.__func__]
    else:
        inner = [getattr(value, "__dict__", None), getattr(value, "args", None), getattr(value, "func", None)]
    return set().union(*(_numbers(item, seen, depth - 1) for item in inner))


def _data(values: Any) -> Iterator[Any]:
    """Of what a function names from outside, what may know a size: no code."""
    return (value for value in values if not isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)))


def small_call(args: Sequence[Any], sizes: Sequence[int], seed: int) -> Iterator[tuple[Any, ...]]:
    """The call at small sizes: primes, or powers of two (heads that divide channels), for large calls."""
    ranked = sorted(sizes)
    for small in ((3, 5, 7, 11, 13, 17), (2, 4, 8, 16, 32, 64)):
        to = {size: min(size, small[min(rank, len(small) - 1)]) for rank, size in enumerate(ranked)}
        try:
            yield resized(args, to, seed)
        except NoSuchCall:
            continue


def shape_variants(args: Sequence[Any], sizes: Sequence[int], seed: int) -> Iterator[Variant]:
    """Each size at 1; what is square not square; all at odd primes; the first axis twice as long.

    Variants with the same ``key`` ask the same question: the first that the forward takes answers it.
    """
    questions: list[tuple[str, Mapping[int, int], Axes | None]] = [(f"{size} to 1", {size: 1}, None) for size in sizes]
    questions += [("not square", {}, axes) for axes in _unsquared(args, sizes)]
    odd = _odd(args, sizes)
    if odd:
        questions.append(("odd", odd, None))
        questions += [("odd", {size: prime}, None) for size, prime in odd.items() if len(odd) > 1]
    first = next((value.shape[0] for value in args if isinstance(value, Tensor) and value.dim()), 0)
    if first in sizes:
        questions.append(("twice as many", {first: 2 * first}, None))
    for key, to, axes in questions:
        try:
            made = resized(args, to, seed, axes)
        except NoSuchCall:
            continue
        yield Variant(made, key, may_raise=key == "not square")


def _odd(args: Sequence[Any], sizes: Sequence[int]) -> dict[int, int]:
    """Each size as an odd prime that no other axis has: a smaller one if there is one, so that no slice comes twice."""
    taken = {size for value in args if isinstance(value, Tensor) for size in value.shape}
    found: dict[int, int] = {}
    for size in sizes:
        free = [prime for prime in (3, 5, 7, 11, 13, 17) if prime not in taken]
        if free:
            found[size] = max((prime for prime in free if prime < size), default=free[0])
            taken.add(found[size])
    return found


def _unsquared(args: Sequence[Any], sizes: Sequence[int]) -> Iterator[Axes]:
    """Axes along which square matrices become square no more: of all those alike together, then of one by itself."""
    square = {
        at: value
        for at, value in enumerate(args)
        if isinstance(value, Tensor)
        and value.dim() > 1
        and value.shape[-1] == value.shape[-2]
        and value.shape[-1] in sizes
    }
    if not square:
        return
    one = next(iter(square.values()))
    side = one.shape[-1]
    less = side - 1 if side > 2 else side + 1
    alike = [at for at, value in square.items() if value.shape == one.shape]
    for group in [alike, *([at] for at in alike if len(alike) > 1)]:
        for axis in (one.dim() - 2, one.dim() - 1):
            yield {at: {axis: less} for at in group}


def unsymmetric(args: Sequence[Any], seed: int) -> Iterator[Variant]:
    """Symmetric matrices (but not the positive definite ones: those are a domain) with the symmetry broken."""
    broken = [
        at
        for at, value in enumerate(args)
        if isinstance(value, Tensor) and (kind := structure_of(value)) is not None and kind.name == "symmetric"
    ]
    if broken:
        generator = torch.Generator().manual_seed(seed)
        changed = list(args)
        for at in broken:
            changed[at] = redrawn(args[at], generator, structured=False)
        yield Variant(tuple(changed), "not symmetric", "no matrix is symmetric")


# --- values ----------------------------------------------------------------------------------------------------------

MOVED = "moved"
_BEGUN_AS = {0.0: "zeros", 1.0: "ones", -1.0: "minus ones"}


def moved_from_the_start(
    args: Sequence[Any], wanted: Sequence[int], names: Sequence[str], seed: int
) -> Iterator[Variant]:
    """Wanted inputs that hold nothing but 0, 1 or -1, as parameters do before the first update, a little elsewhere.

    There a factor or a term that is forgotten does not show. A sign stays what it is.
    """
    generator = torch.Generator().manual_seed(seed)
    changed, told = list(args), []
    for at in wanted:
        value = args[at]
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.numel() == 0:
            continue
        first = value.detach().reshape(-1)[0].item()
        if first not in _BEGUN_AS or not bool((value.detach() == first).all()):
            continue
        step = torch.rand(value.shape, generator=generator, dtype=torch.float64) - 0.5
        changed[at] = (first + step).to(value.dtype).to(value.device)
        told.append(f"{names[at]} is not all {_BEGUN_AS[first]}")
    if told:
        yield Variant(tuple(changed), MOVED, " and ".join(told), may_raise=True)


# --- options ---------------------------------------------------------------------------------------------------------


def option_variants(args: Sequence[Any], names: Sequence[str]) -> Iterator[Variant]:
    """One option changed: another reduction, another axis.

    No switch is thrown and no other string set: what they stand for isn't known, and one that the caller did not throw
    may store the inputs in eight bits, or turn the backward off, on purpose.
    """
    most = max((value.dim() for value in args if isinstance(value, Tensor)), default=0)
    for at, (value, name) in enumerate(zip(args, names, strict=True)):
        others: list[Any] = []
        if isinstance(value, str) and value in _REDUCTIONS:
            others = [other for other in _REDUCTIONS if other != value]
        elif type(value) is int and any(word in name.lower().split("_") for word in ("dim", "axis")):
            same = value % most if most else value
            others = [axis for axis in range(most) if axis != same] + [axis - most for axis in range(most)]
            others.remove(value) if value in others else None
        for other in others:
            made = (*args[:at], other, *args[at + 1 :])
            yield Variant(made, f"{name}={other!r}", f"{name}={other!r}", may_raise=True)
