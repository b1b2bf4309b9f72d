"""The laws of a linear map, asked of a backward as a function of its cotangent.

Notation: B(g) is what comes back for the cotangents g (one per output), h are others; m is zero in half of the places.
Cotangents scaled by a power of two are scaled exactly, so those laws hold to the last bit, whatever the formula, but
for overflow; a sum is rounded as its terms are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gradwright.checking.compared import Apart, Yardstick, largest
from gradwright.checking.cotangents import (
    IN_PLACES,
    NEGATED,
    SCALED_DOWN,
    SCALED_UP,
    TWO_ADDED,
    ZEROS,
    Tried,
    tried_under,
)
from gradwright.checking.recorded import Gradient, anew
from gradwright.checking.trial import DOUBLE, HALF, Trial

ZERO = "B(0) = 0"
SIGN = "B(-g) = -B(g)"
SUM = "B(g + h) = B(g) + B(h)"
PARTS = "B(m g) + B((1 - m) g) = B(g), m zero in places"

Law = Callable[[int], Apart | None]  # of the position of one input

_NOUGHT = 1e-6  # zero times anything is zero: there is no rounding here
_SUMS = 2e-2  # a backward that rounds to half precision inside is inexact, which is another check's finding
_LOST = 0.2  # below the range of half precision numbers lose their last bits, and are still there


class Laws:
    """Each law, for one input at a time; what came back for one set of cotangents is kept and shared."""

    def __init__(self, trial: Trial, baseline: Gradient) -> None:
        self.trial, self.baseline = trial, baseline
        self.yardstick = Yardstick(trial, baseline)
        self._kept: dict[str, Gradient] = {}
        self._scales: dict[str, int] = {}
        own, other, masks = trial.cotangents, trial.redrawn(trial.seed + 41), _masks(trial)
        self._cotangents: dict[str, Callable[[], list[Tensor]]] = {
            "g": lambda: [g.clone() for g in own],
            "0": lambda: [torch.zeros_like(g) for g in own],
            "-g": lambda: [-g for g in own],
            "h": lambda: [h.clone() for h in other],
            "g + h": lambda: [g + h for g, h in zip(own, other, strict=True)],
            "m g": lambda: [g * m for g, m in zip(own, masks, strict=True)],
            "(1 - m) g": lambda: [g * ~m for g, m in zip(own, masks, strict=True)],
        }

    def all(self) -> Iterator[tuple[str, Law]]:
        yield ZERO, self._zero
        yield SIGN, self._sign
        yield SUM, self._sum
        yield PARTS, self._parts
        for power in _powers(self.trial):
            name = f"B(2^{power} g) = 2^{power} B(g)"
            self._scales[name] = power
            yield name, self._scaled(power)

    def usual(self) -> Apart | None:
        """Does a fresh call still give the baseline?"""
        return self.yardstick.apart(anew(self.trial, self._cotangents["g"]()), self.baseline)

    def anew(self, law: Law, index: int) -> Apart | None:
        """The law asked again, everything it needs called again."""
        self._kept.clear()
        return law(index)

    def tried(self, name: str, index: int, autograd: Gradient | None) -> Tried | None:
        """How far what was asked for the law ``name`` is from the truth; nothing is asked for again.

        Nothing is told of small scales where a solver may have a tolerance of its own, nor of what is not finite there.
        """
        kept = {cotangents: gradient[index] for cotangents, gradient in self._kept.items()}
        try:
            word, found = self._comparable(name, index, kept)
        except KeyError:  # it raised, or was asked again
            return None
        truth = None if autograd is None else autograd[index]
        return tried_under(index, word, found, self.baseline[index], truth, nothing=word == ZEROS)

    def _comparable(self, name: str, index: int, kept: dict[str, Tensor]) -> tuple[str, Tensor]:
        """What came back, as something that is to be B(g), or 0; by the name of the cotangents."""
        if name == ZERO:
            return ZEROS, kept["0"]
        if name == SIGN:
            return NEGATED, -kept["-g"]
        if name == SUM:
            return TWO_ADDED, kept["g + h"] - kept["h"]
        if name == PARTS:
            return IN_PLACES, kept["m g"] + kept["(1 - m) g"]
        power = self._scales[name]
        found = kept[f"2^{power} g"] / 2.0**power
        if power > 0:
            return SCALED_UP, torch.where(torch.isfinite(found), found, self.baseline[index])
        if self.trial.tied or self.trial.hidden:
            raise KeyError(name)
        return SCALED_DOWN, found

    def is_offset(self, index: int) -> bool:
        """Is B(g) - B(0) linear in g, as far as sign and sum tell?"""
        zero = self._back("0")[index]
        own, minus, both, other = (self._back(name)[index] - zero for name in ("g", "-g", "g + h", "h"))
        allowed = self.yardstick.allowed(index)
        return largest(own + minus) <= allowed and largest(both - own - other) <= 2 * allowed

    def is_deaf(self, index: int) -> bool:
        """Is the same returned whatever the cotangent is?"""
        gaps = (largest(self._back(name)[index] - self.baseline[index]) for name in ("0", "-g", "h"))
        return all(gap <= self.yardstick.allowed(index) for gap in gaps)

    # --- the laws ----------------------------------------------------------------------------------------------------

    def _zero(self, index: int) -> Apart | None:
        found = self._back("0")
        return self._apart(index, found[index], torch.zeros_like(found[index]), slack=_NOUGHT)

    def _sign(self, index: int) -> Apart | None:
        return self._apart(index, self._back("-g")[index], -self.baseline[index])

    def _sum(self, index: int) -> Apart | None:
        both, alone = self._back("g + h")[index], self._back("h")[index]
        return self._apart(index, both, self.baseline[index] + alone, times=2.0, slack=_SUMS)

    def _parts(self, index: int) -> Apart | None:
        found = self._back("m g")[index] + self._back("(1 - m) g")[index]
        return self._apart(index, found, self.baseline[index], slack=_SUMS)

    def _scaled(self, power: int) -> Law:
        """What overflows is not compared: terms may be larger than what they sum up to."""
        name, scale = f"2^{power} g", 2.0**power
        self._cotangents[name] = lambda: [g * scale for g in self.trial.cotangents]

        def law(index: int) -> Apart | None:
            own = self.baseline[index]
            found = self._back(name)[index] / scale
            found = torch.where(torch.isfinite(found), found, own)
            if power > 0:
                return self._apart(index, found, own)
            size = self.yardstick.sizes[index]
            if (
                not size or self.trial.tied or self.trial.hidden
            ):  # an equation solved by an object, to its own tolerance
                return None
            return self._apart(index, found, own, slack=_LOST + 10 * self._unsummed(index) / scale / size)

        return law

    def _unsummed(self, index: int) -> float:
        """By how much the sum law fails: a solver's absolute tolerance, if it is more than rounding."""
        off = largest(self._back("g + h")[index] - self.baseline[index] - self._back("h")[index])
        return off if off > 64 * self.trial.precision.eps * self.yardstick.sizes[index] else 0.0

    def _apart(
        self, index: int, found: Tensor, expected: Tensor, *, times: float = 1.0, slack: float | None = None
    ) -> Apart | None:
        return self.yardstick.apart({index: found}, {index: expected}, times=times, slack=slack)

    def _back(self, name: str) -> Gradient:
        if name not in self._kept:
            self._kept[name] = anew(self.trial, self._cotangents[name]())
        return self._kept[name]


def _masks(trial: Trial) -> list[Tensor]:
    """Half of the places of each cotangent; of outputs with one entry each, every other output."""
    generator = torch.Generator().manual_seed(trial.seed + 43)
    masks = []
    for number, cotangent in enumerate(trial.cotangents):
        ranks = torch.randperm(cotangent.numel(), generator=generator, device="cpu")
        masks.append((ranks < (cotangent.numel() + number % 2) // 2).reshape(cotangent.shape).to(cotangent.device))
    return masks


def _powers(trial: Trial) -> tuple[int, ...]:
    """From a millionth to a billion, where the precision has room for it."""
    if trial.precision is HALF:
        return -4, 4
    return (-20, -10, 10, 20, 30) if trial.precision is DOUBLE else (-20, -10, 10, 20)
