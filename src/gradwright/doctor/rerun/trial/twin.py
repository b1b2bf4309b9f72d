"""The changed expression beside the old one, on the very values that the script has there, and on some near them.

NOTE [what must stay]: wherever the old value is finite, the new one is the same; wherever the old gradient is, so is
the new one. Compared by entry, with the old one in its own precision or, where rounding tells them apart, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.nonfinite.looks import HALVES, apart, first_entry, word

_FIRST, _MOST = 3, 16  # evaluations that are compared: the first ones, and all in all
_NEAR = 4
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
_OF_HALVES = 2e-2
_NOISE = 1e-12  # what rounding of 1 + x costs in float64, whatever is left of the sum
Computed = Callable[..., Any]


class Twin:
    """The hook. ``call()``: how many backwards there were; ``off``: a context in which nothing of it is watched;
    ``unused``: what was not finite is said to be used by nobody."""

    def __init__(self, call: Callable[[], int], breaks: int, off: Callable[[], Any], *, unused: bool = False) -> None:
        self._call, self._breaks, self._off, self._unused = call, breaks, off, unused
        self._generator: torch.Generator | None = None
        self.evaluations: list[int] = []
        self.compared = [0, 0]
        self.wants_gradient = False
        self.worst, self.tolerance = 0.0, 0.0
        self.differs = ""
        self.last: list[Tensor] = []
        self._times = 0

    def __call__(self, new: Computed, before: Computed, after: Computed, *leaves: Any) -> Any:
        call = self._call()
        if len(self.evaluations) < 10_000:
            self.evaluations.append(call)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if call == self._breaks:
            self.last = tensors
        looks = not self.differs and self._times < _MOST and (self._times < _FIRST or call >= self._breaks - 1)
        if looks:
            self._times += 1
            with self._off(), apart(), torch.inference_mode(False), torch.enable_grad():
                for near in range(_NEAR + 1):
                    if not self.differs:
                        self._guarded(before, after, leaves, near)
        value = new(*leaves)
        if looks and self._unused and isinstance(value, Tensor) and value.requires_grad:
            with self._off(), apart():
                self._watch_use(value, before, leaves)
        return value

    def _watch_use(self, value: Tensor, before: Computed, leaves: Sequence[Any]) -> None:
        """What was not finite is another number now: so nobody may use it, and no gradient may come back for it."""
        old = _outcome(before, leaves, torch.zeros(()), self._cotangent, gradients=False)
        if old is None or old[0].shape != value.shape:
            return
        changed = ~torch.isfinite(old[0])

        def used(gradient: Tensor) -> None:
            with self._off(), apart():
                if bool((changed & (gradient != 0)).any()):
                    self.differs = self.differs or "its value is used where it was not finite, and is another one now"

        if bool(changed.any()):
            value.register_hook(used)  # type: ignore[no-untyped-call]  # as torch wrote it

    def _guarded(self, before: Computed, after: Computed, leaves: Sequence[Any], near: int) -> None:
        """No trouble of ours becomes the script's (no float64 on this device, no memory): then there is no proof."""
        try:
            self._compare(before, after, leaves, near)
        except Exception as error:
            self.differs = f"it could not be compared: {type(error).__name__}: {str(error)[:200]}"

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _compare(self, before: Computed, after: Computed, leaves: Sequence[Any], near: int) -> None:
        given = [self._moved(leaf, near) for leaf in leaves]
        if near and all(one is leaf for one, leaf in zip(given, leaves, strict=True)):
            return
        old = _outcome(before, given, None, self._cotangent)
        if old is None:
            return  # there is nothing to be compared with
        precise = _outcome(before, [_double(one) for one in given], old[2], self._cotangent) or old
        where = "" if not near else " (its operands moved a little)"
        try:
            new = _outcome(after, given, old[2], self._cotangent, raising=True)
        except Exception as error:
            self.differs = f"it raises {type(error).__name__}: {str(error)[:200]}{where}"
            return
        assert new is not None
        if told := _unlike(old[0], new[0]):
            self.differs = told + where
            return
        exact = _outcome(after, [_double(one) for one in given], old[2], self._cotangent) or new
        self._entries("its value", _Four(old[0], precise[0], new[0], exact[0]), 0, where)
        wants = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        self.wants_gradient = self.wants_gradient or (bool(wants) and bool(old[1]))
        for four in zip(old[1], precise[1], new[1], exact[1], strict=True):
            mine = four[0]
            if mine is not None:
                self._entries("the gradient behind it", _Four(mine, *four[1:]), 1, where)

    def _entries(self, what: str, four: _Four, kind: int, where: str) -> None:
        """The same thing as it was and is, both in two precisions."""
        if four.old.numel() == 0:
            return
        tolerance = _tolerance(four.old.dtype)
        known = torch.isfinite(four.old)
        one, other = four.of(four.old), four.of(four.new)
        error = _relative(one, other, known)
        if four.precise is not None:
            precise = four.of(four.precise)
            error = torch.minimum(error, _relative(precise, other, known))
            error = torch.minimum(error, _relative(precise, four.of(four.exact), known, _NOISE))
        error = torch.where(known, error, 0)
        self.compared[kind] += int(known.sum())
        self.tolerance = max(self.tolerance, tolerance)
        worst = float(error.max())
        if worst > tolerance:
            at = first_entry(torch.where(error == error.max(), math.nan, 0.0))
            entry = f" at entry {list(at)}" if at else ""
            self.differs = self.differs or (
                f"{what}{entry} was {word(float(one[at]))} and is {word(float(other[at]))}{where}"
            )
        else:
            self.worst = max(self.worst, worst)

    # --- what it is compared on --------------------------------------------------------------------------------------

    def _random(self, shape: Sequence[int]) -> Tensor:
        if self._generator is None:
            self._generator = torch.Generator().manual_seed(0)
        return torch.rand(shape, generator=self._generator, dtype=torch.float64)

    def _cotangent(self, value: Tensor) -> Tensor:
        drawn = (2 * self._random(value.shape) - 1).to(value.device)
        return torch.where(torch.isfinite(value), drawn, 0).to(value.dtype)

    def _moved(self, leaf: Any, near: int) -> Any:
        """0: as it is. 1: up to a tenth larger. 2: made smaller. 3: whole numbers one larger. 4: halves much smaller.

        A whole number (a count, a mask) stays one.
        """
        if near == 4:
            half = isinstance(leaf, Tensor) and leaf.dtype in HALVES
            return (leaf.detach() / 100).requires_grad_(leaf.requires_grad) if half else leaf
        if near and isinstance(leaf, float):
            return leaf if leaf == round(leaf) or near == 3 else leaf * (1.1 if near == 1 else 0.1)
        if not near or not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.numel() == 0:
            return leaf
        kept = leaf.detach()
        whole = bool((kept == kept.round()).all()) and not leaf.requires_grad
        if whole or near == 3:
            return (kept + 1).requires_grad_(leaf.requires_grad) if whole and near == 3 else leaf
        drawn = self._random(leaf.shape).to(leaf.device, leaf.dtype)
        moved = kept * (1 + drawn / 10) if near == 1 else kept * drawn + (drawn / 10 if leaf.requires_grad else 0)
        return moved.requires_grad_(leaf.requires_grad)


@dataclass(frozen=True)
class _Four:
    """``old`` and ``new``; ``precise`` and ``exact`` are the same in float64. None: no gradient, which is 0."""

    old: Tensor
    precise: Tensor | None
    new: Tensor | None
    exact: Tensor | None

    def of(self, one: Tensor | None) -> Tensor:
        return (torch.zeros_like(self.old) if one is None else one.detach()).to(torch.float64)


_Outcome = tuple[Tensor, list[Tensor | None], Tensor]  # value, gradients of what wants one, the cotangent


def _outcome(
    function: Computed,
    given: Sequence[Any],
    cotangent: Tensor | None,
    draw: Callable[[Tensor], Tensor],
    *,
    raising: bool = False,
    gradients: bool = True,
) -> _Outcome | None:
    """What it gives on copies of these values; None if it raises."""
    copies = [_copy(one) for one in given]
    try:
        value = function(*copies)
        value = value if isinstance(value, Tensor) else torch.as_tensor(float(value), dtype=torch.float64)
        cotangent = draw(value) if cotangent is None else cotangent
        wanted = [one for one in copies if isinstance(one, Tensor) and one.requires_grad]
        found: list[Tensor | None] = [None] * len(wanted)
        alike = value.shape == cotangent.shape  # else that is what is told
        if gradients and alike and wanted and value.requires_grad and value.is_floating_point():
            found = [*torch.autograd.grad(value, wanted, cotangent.to(value.dtype), allow_unused=True)]
        return value.detach(), found, cotangent
    except Exception:
        if raising:
            raise
        return None


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _double(value: Any) -> Any:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def _unlike(old: Tensor, new: Tensor) -> str:
    if old.shape != new.shape:
        return f"its shape was {list(old.shape)} and is {list(new.shape)}"
    wider = old.dtype in HALVES and new.dtype == torch.float32
    if old.dtype != new.dtype and not wider:
        return f"its dtype was {old.dtype} and is {new.dtype}"
    return ""


def _relative(old: Tensor, new: Tensor, known: Tensor, noise: float = 0.0) -> Tensor:
    """By entry, of its own size and the largest; inf where one is not finite."""
    size = float(torch.where(known & torch.isfinite(old), old.abs(), 0).max())
    difference = (old - new).abs()
    error = torch.where(difference <= noise, 0.0, difference / (old.abs() + max(size, 1e-300)))
    return error.nan_to_num(nan=math.inf)


def _tolerance(dtype: torch.dtype) -> float:
    return _TOLERANCES.get(dtype, _OF_HALVES)
