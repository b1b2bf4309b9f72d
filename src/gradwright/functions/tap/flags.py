"""What is conspicuous about a parameter's gradient, in plain words. Thresholds are wide: a flag is worth a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.functions.tap.numbers import number
from gradwright.functions.tap.records import Statistics

Word = Literal["not finite", "parameter not finite", "exploding", "missing", "dead", "vanishing"]
# The worst first.
WORDS: tuple[Word, ...] = ("not finite", "parameter not finite", "exploding", "missing", "dead", "vanishing")

# A typical entry is the root mean square of those that are not zero: an embedding's untouched rows don't count.
# exploding: the gradient's norm is more than this many times the parameter's, and its typical entry larger than that.
EXPLODING_RATIO, EXPLODING_ENTRY = 1e4, 10.0
# vanishing: a typical entry is this small a share of the largest typical entry in the model (the resolution of
# float32, about: the two can't be summed), ...
VANISHING_AMONG = 1e-7
# ... or the gradient's norm is this small a share of the parameter's: a thousandth of what float32 resolves.
VANISHING_RATIO = 1e-10


@dataclass(frozen=True, slots=True)
class Flag:
    """``word``: what is conspicuous, ``why``: the figures that say so."""

    word: Word
    why: str


def flags_for(
    gradient: Statistics | None, parameter: Statistics, *, wanted: bool, largest: tuple[float, str]
) -> tuple[Flag, ...]:
    """The flags of one parameter, the worst first.

    ``wanted``: it requires a gradient. ``largest``: the largest typical entry among the model's gradients, and whose.
    """
    flags = []
    if gradient is not None and gradient.nans + gradient.infs:
        counts = [f"{count} {word}" for count, word in ((gradient.nans, "NaN"), (gradient.infs, "inf")) if count]
        flags.append(Flag("not finite", f"{' and '.join(counts)} among {gradient.elements} entries of its gradient"))
    if parameter.nans + parameter.infs:
        bad = parameter.nans + parameter.infs
        flags.append(Flag("parameter not finite", f"{bad} of its own {parameter.elements} values are NaN or inf"))
    if gradient is None:
        if wanted:
            flags.append(Flag("missing", "it requires a gradient and has none"))
        return tuple(flags)
    if gradient.elements and gradient.zeros == gradient.elements:
        flags.append(Flag("dead", f"all {gradient.elements} entries of its gradient are zero"))
    elif gradient.finite > gradient.zeros:
        flags += _sizes(gradient, parameter, largest)
    return tuple(flags)


def _sizes(gradient: Statistics, parameter: Statistics, largest: tuple[float, str]) -> list[Flag]:
    typical, norm, own = gradient.typical, gradient.norm, parameter.norm
    if norm > EXPLODING_RATIO * own > 0 and typical > EXPLODING_ENTRY:
        times = number(norm / own)
        return [Flag("exploding", f"its gradient is {times} times as large as itself (norms {_pair(norm, own)})")]
    if typical < VANISHING_AMONG * largest[0]:
        less = number(typical / largest[0])
        return [Flag("vanishing", f"a typical entry is {number(typical)}: {less} of that of {largest[1]}")]
    if norm < VANISHING_RATIO * own:
        return [Flag("vanishing", f"its gradient is {number(norm / own)} of its own size (norms {_pair(norm, own)})")]
    return []


def _pair(gradient: float, parameter: float) -> str:
    return f"{number(gradient)} and {number(parameter)}"
