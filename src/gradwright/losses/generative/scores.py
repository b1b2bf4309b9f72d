"""Losses of a critic's scores: of real samples and of generated ones, which need not be as many."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gradwright.kernels.calls.messages import refusal
from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import Empty, Options, Reduction, options_of, require_real
from gradwright.losses.common.module import Loss

_SIDES = {"real": "(-1)", "fake": "1"}


class TwoSided:
    """A loss f(score, -1) of real scores plus f(score, 1) of fake ones; ``formula``: that f, of ``score`` and ``side``.

    Where both have one shape, the loss is of pairs, in one pass; elsewhere each side has a pass, and its own mean.
    """

    def __init__(self, name: str, formula: str) -> None:
        self._one = Additive(name, formula, ())
        sides = [formula.replace("score", score).replace("side", side) for score, side in _SIDES.items()]
        self._both = Additive(name, " + ".join(f"({text})" for text in sides), ())

    def __call__(self, where: str, real: Tensor, fake: Tensor, options: Options) -> Tensor:
        require_real(where, real=real, fake=fake)
        if real.shape == fake.shape:
            return self._both(where, {"real": real, "fake": fake}, {}, options)
        for name, value in (("mask", options.mask), ('reduction="none"', options.reduction == "none" or None)):
            if value is not None:
                raise refusal(
                    f"real has shape {list(real.shape)}, fake {list(fake.shape)}, and {name} is given",
                    where=where,
                    why="there are no pairs: the loss is a mean over the one plus a mean over the other",
                    do=f"leave {name} out, or hand over as many real scores as fake ones",
                )
        return self._one(where, {"score": real}, {"side": -1.0}, options) + self._one(
            where, {"score": fake}, {"side": 1.0}, options
        )


class ScoresLoss(Loss):
    """A loss of scores as a module, made with what every loss is made with. ``_where``: of the messages."""

    coupling = "additive"
    _where: ClassVar[str]

    def __init__(self, reduction: Reduction = "mean", *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(self._where, reduction, None, None, empty)
        self.reduction: Reduction = reduction
        self.empty: Empty = empty
