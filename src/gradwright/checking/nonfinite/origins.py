"""Where a value that is not finite comes from: which operation made it, and who carries it since."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from gradwright.checking.nonfinite.frames import Label, Place
from gradwright.checking.nonfinite.looks import node_of

# "inside backward": an operation that code of the user's (a Function's backward, a hook) runs there.
Phase = Literal["forward", "backward", "inside backward", "optimizer step", "given"]
Kind = Literal[
    "where-nan",
    "boundary",
    "exp-overflow",
    "half-overflow",
    "overflow",
    "explosion",
    "zero-count",
    "division-by-zero",
    "normalize-at-zero",
    "zero-spread",
    "masked-row",
    "zero-times-inf",
    "inf-minus-inf",
    "inf-over-inf",
    "constant",
    "uninitialised",
    "given",
    "update",
    "unknown",
]
_STORAGES = 256
_serial = itertools.count()


@dataclass(frozen=True, slots=True)
class Cause:
    """``kind`` for programs, ``why`` and ``hints`` for people. ``entry``: the operand's, where that is another one."""

    kind: Kind
    why: str
    hints: tuple[str, ...] = ()
    entry: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NonfiniteBegin:
    """The first operation that was finite in and not finite out, and whose value reached the loss or a gradient.

    ``value`` is what its result (in the backward: the gradient that it returns) holds at ``entry``; ``operands`` are
    named values there, ``upstream`` is the gradient that arrived. ``then``: what became of it. ``backward_call``: in or
    before which backward since the watch was put on, from 0.
    """

    operation: str
    phase: Phase
    place: Place
    kind: Kind
    value: str
    entry: tuple[int, ...]
    shape: tuple[int, ...]
    why: str
    operands: tuple[tuple[str, float], ...] = ()
    upstream: float | None = None
    hints: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    backward_call: int = 0


@dataclass(eq=False)
class Origin:
    """``meant``: an inf that somebody wrote down, or the log of a mask: no fault until a NaN is made of it.
    ``skipped``: an overflow of scaled gradients, which a scaler looks for itself."""

    begin: NonfiniteBegin
    label: Label | None = None
    meant: bool = False
    skipped: bool = False
    serial: int = field(default_factory=lambda: next(_serial))
    _is_nan: bool = False

    def became_nan(self, where: str) -> None:
        """Told once: what takes it further makes NaN of it again and again."""
        if self.begin.value != "nan" and not self._is_nan:
            self._is_nan = True
            self.note(f"{where} made NaN of it")

    def came_back(self, text: str, hint: str) -> None:
        """Nobody used its value, and its gradient became NaN all the same."""
        self._is_nan = True
        self.note(text)
        if hint not in self.begin.hints:
            self.begin = replace(self.begin, hints=(hint, *self.begin.hints))

    def note(self, text: str) -> None:
        """Something that followed; the first few are kept."""
        if text not in self.begin.then and len(self.begin.then) < 3:
            self.begin = replace(self.begin, then=(*self.begin.then, text))


def first_of(origins: Iterable[Origin | None]) -> Origin | None:
    """The earliest that nobody meant; the earliest at all if all were meant."""
    known = [origin for origin in origins if origin is not None]
    return min(known, key=lambda origin: (origin.meant or origin.skipped, origin.serial), default=None)


class TensorSet:
    """Tensors by identity; none is kept alive."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[Tensor]] = {}

    def add(self, tensor: Tensor) -> None:
        key = id(tensor)
        self._held[key] = weakref.ref(tensor, lambda _: self._held.pop(key, None) and None)

    def __contains__(self, tensor: Tensor) -> bool:
        held = self._held.get(id(tensor))
        return held is not None and held() is tensor


class Ledger:
    """Tensors that are not finite, by object and by storage; none is kept alive.

    Storages are a second try (a view, a tensor that a graph has saved): one that was freed may have been given to
    another tensor since, which is why only tensors known to be non-finite may be looked up.
    """

    def __init__(self) -> None:
        self._objects: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._storages: dict[int, Origin] = {}

    def __bool__(self) -> bool:
        return bool(self._objects)

    def mark(self, tensor: Tensor, origin: Origin) -> None:
        key = id(tensor)
        self._objects[key] = weakref.ref(tensor, lambda _: self._gone(key)), origin
        pointer = _storage(tensor)
        if pointer:
            self._storages.pop(pointer, None)
            self._storages[pointer] = origin
            if len(self._storages) > _STORAGES:
                del self._storages[next(iter(self._storages))]

    def _gone(self, key: int) -> None:
        held = self._objects.get(key)
        if held is not None and held[0]() is None:
            del self._objects[key]

    def clear(self, tensor: Tensor) -> None:
        """It was found finite: written over, or another tensor in the same memory."""
        self._objects.pop(id(tensor), None)
        if self._storages:
            self._storages.pop(_storage(tensor), None)

    def exactly(self, tensor: Tensor) -> Origin | None:
        """By object alone."""
        held = self._objects.get(id(tensor))
        return held[1] if held is not None and held[0]() is tensor else None

    def origin(self, tensor: Tensor) -> Origin | None:
        return self.exactly(tensor) or self._storages.get(_storage(tensor))

    def origin_behind(self, tensor: Tensor) -> Origin | None:
        """Of what the Function that made ``tensor`` was given: its ``apply`` is called out of sight of every mode."""
        node = node_of(tensor)
        if not isinstance(node, BackwardCFunction):
            return None
        behind = [given for given, _ in node.next_functions if given is not None]
        held = ((node_of(one), origin) for one, origin in self.alive())
        return first_of(origin for made_by, origin in held if any(made_by is given for given in behind))

    def settle(self) -> None:
        """Forget storages that no tensor known here lies in: a graph that had saved them is gone, as a rule."""
        if self._storages:
            kept = {_storage(tensor) for tensor, _ in self.alive()}
            self._storages = {pointer: origin for pointer, origin in self._storages.items() if pointer in kept}

    def alive(self) -> list[tuple[Tensor, Origin]]:
        found = ((reference(), origin) for reference, origin in list(self._objects.values()))
        return [(tensor, origin) for tensor, origin in found if tensor is not None]


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:  # no storage: sparse, wrapped, opaque
        return 0
