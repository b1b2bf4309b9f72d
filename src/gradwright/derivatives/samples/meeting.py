"""Which samples meet: a second look at a backward, exact, where the first can't tell a small leak from rounding.

NOTE [Splits of the batch]: give every sample a number; for every binary digit, let only the samples with that digit
0 speak (a random cotangent there, zeros elsewhere), then only those with digit 1. Any two samples differ in a digit, so
in one of these 2 ceil(log2 B) vjps the first of them is silent and the other is not. Two things are looked at:
 - a silent sample's row must be exactly zero. Zero times a finite number is zero in every dtype, so the smallest leak
   of a backward that is linear shows, without a threshold (entries that are infinite or NaN anyway are left out:
   0 * inf = NaN there);
 - a speaking sample's row must be what it is when all samples speak. It is the same arithmetic on the same numbers,
   so it agrees to the last bit, or to the kernel's own noise, which a repetition measures. A backward that is not
   linear and mixes samples without leaking zeros, g / g.norm(), shows here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

#: A cotangent of y, [B, *K], to what arrives at the target, [B, D].
SeenFrom = Callable[[Tensor], Tensor]

#: How far the row of a speaking sample may move, in epsilons of its largest entry and in measured noise.
STEADY_EPS, STEADY_NOISE = 4, 8


@dataclass(frozen=True)
class Meeting:
    """``receiver``: a sample whose row holds something of ``giver``, another one.

    ``share``: how much its largest entry changed with who spoke, over what it is when all speak.
    """

    receiver: int
    giver: int
    share: float


def find_meeting(cotangent: Tensor, seen: Tensor, seen_from: SeenFrom, digits: int | None = None) -> Meeting | None:
    """Two samples that meet, or None where no two do: NOTE [Splits of the batch].

    ``digits``: how many of the binary digits are looked at; all of them by default.
    Cost: two vjps a digit, one more where rows move, and log2 B more to name the giver.
    """
    count = len(cotangent)
    numbers = torch.arange(count, device=cotangent.device)
    split = _Split(cotangent, seen.detach(), seen_from)
    every = (count - 1).bit_length()
    for digit in range(every if digits is None else min(digits, every)):
        for side in (0, 1):
            speaking = (numbers >> digit) % 2 == side
            found = split.disturbed(speaking)
            if found is not None:
                receiver, share = found
                return Meeting(receiver, split.giver(receiver, speaking), share)
    return None


class _Split:
    def __init__(self, cotangent: Tensor, seen: Tensor, seen_from: SeenFrom) -> None:
        self._cotangent, self._seen, self._seen_from = cotangent, seen, seen_from
        self._finite = seen.isfinite()
        self._size = largest(torch.where(self._finite, seen, 0))

    @cached_property
    def _steady(self) -> Tensor:
        """How far each row moves when nothing is changed, and rounding, [B]."""
        noise = largest(torch.where(self._finite, self._seen_from(self._cotangent).detach() - self._seen, 0))
        return STEADY_EPS * torch.finfo(self._seen.dtype).eps * self._size + STEADY_NOISE * noise.nan_to_num(0.0)

    def _rows(self, speaking: Tensor) -> Tensor:
        silent = ~speaking.reshape(-1, *[1] * (self._cotangent.ndim - 1))
        return self._seen_from(self._cotangent.masked_fill(silent, 0)).detach()

    def disturbed(self, speaking: Tensor) -> tuple[int, float] | None:
        """A sample whose row is not what it would be on its own, the most disturbed one, and how much."""
        rows = self._rows(speaking)
        leak, moved = (largest(torch.where(self._finite, entries, 0)) for entries in (rows, rows - self._seen))
        off = torch.where(speaking, moved, leak).nan_to_num(torch.inf)
        if bool(off.any()):
            off = torch.where(speaking & (off <= self._steady), 0, off)
        if not bool(off.any()):
            return None
        worst = int(off.argmax())
        own = float(self._size[worst])
        return worst, float(off[worst]) / own if own else torch.inf

    def giver(self, receiver: int, speaking: Tensor) -> int:
        """The sample that ``receiver`` receives from, by halving the samples that may be it."""
        numbers = torch.arange(len(speaking), device=speaking.device)
        suspects = numbers[speaking & (numbers != receiver)]
        if speaking[receiver]:  # it moved because others fell silent
            suspects = numbers[~speaking]
        alone = numbers == receiver
        base = self._rows(alone)[receiver]
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            row = self._rows(alone | torch.isin(numbers, half))[receiver]
            suspects = half if not torch.equal(row, base) else suspects[len(half) :]
        return int(suspects[0])


def largest(rows: Tensor) -> Tensor:
    """The largest magnitude in each row, [B]; 0 for an empty one."""
    rows = rows.detach()
    return rows.abs().amax(1) if rows.shape[1] else rows.new_zeros(len(rows)).real


def wide(tensor: Tensor) -> torch.dtype:
    """The real dtype in which sizes are taken: half precision overflows."""
    return torch.float64 if tensor.dtype in (torch.float64, torch.complex128) else torch.float32
