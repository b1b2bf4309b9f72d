"""Check 10. Does the backward get along with outputs that nobody uses?

Of several outputs the loss often uses one: the other cotangents are undefined. By default the engine fills in zeros;
after ``ctx.set_materialize_grads(False)`` the backward is handed ``None``, also, now and then, for a single output.
What comes back must be what zeros give: then it sums up, by linearity, to the whole gradient.

A backward that raises for explicit zeros, too, is not judged here. Where torch's own derivative of the same forward
takes undefined cotangents in the same way (that of ``native_group_norm`` in torch 2.13 returns nothing), the fault is
torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.compared import Apart, Yardstick, attempt, by_chance, lasting
from gradwright.checking.problem import Problem
from gradwright.checking.recorded import Call, Gradient, anew, plain
from gradwright.checking.report import NotChecked
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial
from gradwright.ground.torch_versions.nodes import NODES, UndefinedGrad

MOST = 8


def run(problem: Problem) -> Iterator[Answer]:
    count = len(problem.trial.cotangents)
    if count > MOST:
        yield NotChecked("undefined cotangents", f"{count - MOST} of {count} outputs")
    numbers: list[int | None] = [*range(min(count, MOST))] if count > 1 else []
    yardstick = Yardstick(problem.trial, problem.baseline)
    told: dict[tuple[int, str], Answer] = {}
    for number in [*numbers, None]:
        apart = _Question(problem.trial, yardstick, number).difference()
        if apart is None or (apart.index, apart.raised) in told:
            continue
        theirs = plain(problem.trial)
        if theirs and _Question(problem.trial, yardstick, number, theirs).difference():
            yield NotChecked("undefined cotangents", "torch's own gradient of this forward takes them in the same way")
        else:
            told[apart.index, apart.raised] = _finding(problem, number, apart)
    if told and attempt(lambda: by_chance(yardstick)):
        yield NotChecked("undefined cotangents", "the backward draws random numbers, other ones for other outputs")
    else:
        yield from told.values()


class _Question:
    """Do undefined cotangents give what zeros give, where output ``number`` alone has a cotangent (``None``: none has)?

    ``call``: what is asked, the subject by default.
    """

    def __init__(self, trial: Trial, yardstick: Yardstick, number: int | None, call: Call | None = None) -> None:
        self.trial, self.yardstick, self.number, self.call = trial, yardstick, number, call

    def difference(self) -> Apart | None:
        """Where they don't, if that lasts. Cost: two calls."""
        if self.number is None:
            NODES.require()  # else what is missing would be taken for the subject's exception
        try:
            expected = self._of_zeros()
        except (TimeUp, NotJudgeable):
            raise
        except Exception:  # it raises for zeros, which says nothing about undefined ones
            return None

        def odd() -> Apart | None:
            return self.yardstick.apart(self._of_undefined(), expected)

        return lasting(lambda: self.yardstick.apart(self._of_zeros(), expected), odd) if attempt(odd) else None

    def _of_zeros(self) -> Gradient:
        return anew(self.trial, self._zeros(), self.call)

    def _of_undefined(self) -> Gradient:
        if self.number is None:
            undefined: Callable[[Tensor], Tensor] = UndefinedGrad()  # as gradcheck
            return anew(self.trial, self._zeros(), self.call, undefined)
        alone = [c if number == self.number else None for number, c in enumerate(self._zeros())]
        return anew(self.trial, alone, self.call)

    def _zeros(self) -> list[Tensor]:
        """Cotangents that are zero, but for the one."""
        return [
            cotangent.clone() if number == self.number else torch.zeros_like(cotangent)
            for number, cotangent in enumerate(self.trial.cotangents)
        ]


def _finding(problem: Problem, number: int | None, apart: Apart) -> Answer:
    what = "raises" if apart.raised else f"returns another gradient of {problem.names[apart.index]} than zeros give"
    when = "no output has a cotangent" if number is None else f"output {number} alone has a cotangent"
    return CHECK.finding(
        problem,
        "GW211",
        cause="undefined cotangent",
        message=f"the backward of {problem.label} {what} when {when}",
        why=f"the others are undefined (None, after set_materialize_grads(False)): {apart.told(problem)}"
        if number is not None
        else f"undefined cotangents (None, after set_materialize_grads(False)): {apart.told(problem)}",
        do="take None for zeros: skip the terms of a cotangent that is None, and return None if no term is left",
        index=apart.index if apart.index >= 0 else None,
        severity="warning" if number is None else "error",
        output=number,
        **apart.evidence(problem),
    )


CHECK = Check(10, "undefined cotangents", "standard", {"GW211": "undefined-cotangent-mishandled"}, run)
