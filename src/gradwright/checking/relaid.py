"""One subject with its cotangents, or its inputs, in another layout: does the same gradient come back?

First looks are cheap (all cotangents go through one recorded forward); a difference is told only if it is a lasting
one: see NOTE [what lasts].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from gradwright.checking.compared import Apart, Yardstick, attempt, lasting, refused
from gradwright.checking.layouts import Layout, constant_along, handed_in
from gradwright.checking.recorded import Call, Gradient, Recorded, anew, calm
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial


class RelaidCotangents:
    """The trial's cotangents in other layouts. ``call``: what is asked, the subject by default."""

    def __init__(self, trial: Trial, yardstick: Yardstick, call: Call | None = None) -> None:
        self.trial, self.yardstick, self.call = trial, yardstick, call

    @cached_property
    def _recorded(self) -> Recorded | None:
        try:
            return Recorded(self.trial, call=self.call)
        except (TimeUp, NotJudgeable):
            raise
        except Exception:  # it ran before: whether it repeats itself is another check's question
            return None

    def suspect(self, layout: Layout) -> bool:
        """A first look, in :func:`calm`; what raises is suspect, too. Cost: 1 or 2 backwards, for all one forward."""
        if not any(layout.fits(cotangent) for cotangent in self.trial.cotangents):
            return False
        if self._recorded is None:
            return True
        gradient = self._recorded.gradient

        def look() -> Apart | None:
            expected = gradient(self._values_for(layout)) if layout.shared else self.yardstick.baseline
            return self.yardstick.apart(gradient(self._placed(layout)), expected)

        return attempt(look) is not None

    def lasting(self, layout: Layout, only: int | None = None) -> Apart | None:
        """The difference, if it lasts; ``only``: the cotangent of that output is laid out so, the others are dense."""
        dense: list[Gradient] = [] if layout.shared else [self.yardstick.baseline]

        def usual() -> Apart | None:
            dense.append(anew(self.trial, self._values_for(layout), self.call))
            return self.yardstick.apart(dense[-1], dense[0])

        def odd() -> Apart | None:
            return self.yardstick.apart(anew(self.trial, self._placed(layout, only), self.call), dense[0])

        return lasting(usual, odd)

    def _values_for(self, layout: Layout) -> list[Tensor]:
        """The values that cotangents in this layout have, dense."""
        return [
            constant_along(layout, cotangent) if layout.shared and layout.fits(cotangent) else cotangent.clone()
            for cotangent in self.trial.cotangents
        ]

    def _placed(self, layout: Layout, only: int | None = None) -> list[Tensor]:
        return [
            layout.place(value) if layout.fits(value) and only in (None, number) else value
            for number, value in enumerate(self._values_for(layout))
        ]


class RelaidInputs:
    """The trial's inputs (or the one at position ``only``) in ``layout``, cotangents dense.

    ``refused``: what the forward raised there, in words; to refuse a layout is honest. A difference of kind "forward"
    is one of the outputs, "" one of the gradients.
    """

    def __init__(
        self,
        trial: Trial,
        yardstick: Yardstick,
        layout: Layout,
        *,
        only: int | None = None,
        call: Call | None = None,
    ) -> None:
        self.trial, self.yardstick, self.layout, self.only, self.call = trial, yardstick, layout, only, call
        self.refused = ""

    def look(self) -> Apart | None:
        """A first look. Cost: one call, forward and backward; another one for a shared layout."""
        if not self.layout.shared:
            return self._laid(self.trial, self.trial.values, self.yardstick.baseline)
        try:
            values, gradient = self._dense(self.trial)
        except TimeUp:
            raise
        except Exception:  # the forward may refuse values that it was never meant for
            return None
        finite = all(bool(torch.isfinite(numbers).all()) for numbers in [*values, *gradient.values()])
        return self._laid(self.trial, values, gradient) if finite else None

    def lasting(self) -> Apart | None:
        """The difference, if it lasts, here and beside this point, where no ties are left: of equal numbers ``max`` may
        choose another one when they are laid out otherwise."""
        found = self._lasting_at(self.trial)
        if found is None or self.layout.shared:  # which of the equal slices of an expanded input was chosen is not seen
            return found
        try:
            beside = self.trial.nudged(self.trial.seed + 53)
            beside.gradient()
        except TimeUp:
            raise
        except Exception:  # the forward may refuse inputs that it was never meant for: here is all there is
            return found
        return found if self._lasting_at(beside) else None

    def _lasting_at(self, trial: Trial) -> Apart | None:
        try:
            values, gradient = self._dense(trial)
        except TimeUp:
            raise
        except Exception:  # what is raised only now and then is no matter of layout
            return None
        return lasting(
            lambda: self.yardstick.apart(self._dense(trial)[1], gradient),
            lambda: self._laid(trial, values, gradient),
        )

    def _dense(self, trial: Trial) -> tuple[list[Tensor], Gradient]:
        """Outputs and gradient at the same values, dense."""
        handed = handed_in(trial, self.layout, self.only, placed=False) if self.layout.shared else None
        with calm(trial):
            recorded = Recorded(trial, handed, self.call)
            return recorded.values(), recorded.gradient(_copies(trial), keep=False)

    def _laid(self, trial: Trial, usual: Sequence[Tensor], expected: Gradient) -> Apart | None:
        """The difference, from these outputs or this gradient, of the call with its inputs laid out."""
        self.refused = ""
        handed = handed_in(trial, self.layout, self.only)
        if handed is None:
            return None
        with calm(trial):
            try:
                recorded = Recorded(trial, handed, self.call)
            except TimeUp:
                raise
            except Exception as error:
                self.refused = refused(error).raised
                return None
            return _outputs_apart(recorded.values(), usual) or attempt(
                lambda: self.yardstick.apart(recorded.gradient(_copies(trial), keep=False), expected)
            )


def same_values(values: Sequence[Tensor], usual: Sequence[Tensor]) -> bool:
    """Are these flat outputs those, but for what a solver may be off?"""
    return _outputs_apart(values, usual) is None


def _outputs_apart(values: Sequence[Tensor], usual: Sequence[Tensor]) -> Apart | None:
    for one, two in zip(values, usual, strict=True):
        if one.shape != two.shape:
            return Apart(kind="forward", raised="an output of another shape")
        if not one.numel():
            continue
        differs = (one - two).abs().nan_to_num(nan=torch.inf)
        entry, size = int(differs.argmax()), float(two.abs().max())
        if float(differs[entry]) > 1e-3 * size:
            error = float(differs[entry]) / max(size, 1e-300)
            return Apart(entry=entry, found=float(one[entry]), expected=float(two[entry]), error=error, kind="forward")
    return None


def _copies(trial: Trial) -> list[Tensor]:
    return [cotangent.clone() for cotangent in trial.cotangents]
