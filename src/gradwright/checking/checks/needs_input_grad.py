"""Check 6. Is the gradient of an input the same when it alone is asked for, and when all but one are?

``ctx.needs_input_grad`` is read at the wrong position, a tensor is saved only if another input wants a gradient, the
tuple is built without the ``None`` for what nobody asked: with every input asked for at once, as gradcheck does it,
each of them passes (unsloth#832, torchdiffeq#104).

A forward that raises, and a ``NotImplementedError``, are honest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.compared import Apart, Yardstick, attempt, by_chance, lasting
from gradwright.checking.problem import Problem
from gradwright.checking.recorded import Gradient, Recorded, anew, calm
from gradwright.checking.report import NotChecked
from gradwright.checking.trial import Handed, NotJudgeable, TimeUp, Trial

MOST = 24

Subset = tuple[int, ...]


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    able = [index for index in problem.wanted if index not in trial.tied]
    if len(able) < 2:
        return
    asked = _subsets(problem, able)
    if len(asked) > MOST:
        yield NotChecked("needs_input_grad", f"{len(asked) - MOST} of {len(asked)} choices of inputs")
    ask = _Ask(trial, problem.baseline)
    told: dict[tuple[int, str], Answer] = {}
    for subset in asked[:MOST]:
        first = ask.of(subset)
        if ask.refused:
            yield NotChecked("needs_input_grad", f"the forward raises when {_named(problem, subset)} wants one")
        apart = lasting(ask.usual, lambda subset=subset: ask.of(subset)) if first else None  # type: ignore[misc]  # bound now
        if apart is None:
            continue
        if apart.kind == "NotImplementedError":
            yield NotChecked("needs_input_grad", f"{_named(problem, subset)}: {apart.raised}")
        elif (apart.index, apart.raised) not in told:
            told[apart.index, apart.raised] = _finding(problem, subset, apart)
    if told and attempt(lambda: by_chance(ask.yardstick)):
        yield NotChecked("needs_input_grad", "the backward draws random numbers, other ones for other inputs")
    else:
        yield from told.values()


def _subsets(problem: Problem, able: Sequence[int]) -> list[Subset]:
    """Each input alone; for a Function, also all but one."""
    alone: list[Subset] = [(index,) for index in able]
    if not problem.is_function or len(able) < 3:
        return alone
    return alone + [tuple(other for other in able if other != index) for index in able]


class _Ask:
    """Calls in which only some of the inputs require a gradient. ``refused``: the forward raised in the latest one."""

    def __init__(self, trial: Trial, baseline: Gradient) -> None:
        self.trial, self.baseline, self.yardstick = trial, baseline, Yardstick(trial, baseline)
        self.refused = False

    def usual(self) -> Apart | None:
        return self.yardstick.apart(anew(self.trial, self._cotangents()), self.baseline)

    def of(self, subset: Subset) -> Apart | None:
        """The difference from the baseline when only these are asked for."""
        self.refused = False
        with calm(self.trial):
            try:
                recorded = Recorded(self.trial, _handed(self.trial, subset))
            except (TimeUp, NotJudgeable):
                raise
            except Exception:  # to take only some choices of inputs is honest, if it is said
                self.refused = True
                return None
            return attempt(
                lambda: self.yardstick.apart(recorded.gradient(self._cotangents(), keep=False), self.baseline)
            )

    def _cotangents(self) -> list[torch.Tensor]:
        return [cotangent.clone() for cotangent in self.trial.cotangents]


def _handed(trial: Trial, subset: Subset) -> Handed:
    """Fresh arguments of which only these require a gradient (and those tied to an object, which may use them)."""
    handed = trial.handed()
    for index in handed.targets:
        if index not in subset and index not in trial.tied:
            value = handed.args[index]
            handed.args[index] = value.requires_grad_(False) if value.is_leaf else value.detach()
    return Handed(handed.args, {index: target for index, target in handed.targets.items() if index in subset})


def _named(problem: Problem, subset: Subset) -> str:
    if len(subset) == 1:
        return f"{problem.names[subset[0]]} alone"
    return f"all but {', '.join(problem.names[index] for index in problem.wanted if index not in subset)}"


def _finding(problem: Problem, subset: Subset, apart: Apart) -> Answer:
    asked = _named(problem, subset)
    missing = not apart.raised and apart.found == 0
    what = "raises" if apart.raised else "returns no gradient" if missing else "returns another gradient"
    whose = "" if apart.raised else f" of {problem.names[apart.index]}"
    return CHECK.finding(
        problem,
        "GW210",
        cause="needs_input_grad",
        message=f"{problem.label} {what}{whose} when {asked} {'wants' if len(subset) == 1 else 'want'} one",
        why=f"{asked} requires grad: {apart.told(problem)}",
        do="gate each gradient by ctx.needs_input_grad at its own position (counted over all of the forward's "
        "arguments after ctx), save what any of them needs, and return None in the place of those not asked for",
        index=subset[0] if apart.raised and len(subset) == 1 else apart.index if not apart.raised else None,
        asked=tuple(problem.names[index] for index in subset),
        **apart.evidence(problem),
    )


CHECK = Check(6, "needs_input_grad", "standard", {"GW210": "needs-input-grad-misread"}, run)
