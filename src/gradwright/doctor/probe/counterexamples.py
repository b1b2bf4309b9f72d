"""For each wrong gradient a program that stands alone and shows it, from the smallest specimen that it is wrong on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradwright.checking.checks.values import finding_of
from gradwright.checking.context import input_names
from gradwright.checking.counterexample import counterexample
from gradwright.checking.problem import Problem, pose
from gradwright.doctor.observed import Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.judged import Judged
from gradwright.doctor.probe.verdicts import as_input_verdict
from gradwright.doctor.session.facts import Counterexample, GradientVerdict
from gradwright.ground import clock
from gradwright.ground.declared import surrogate_reason

# Seconds: of making a call small, of one program with all trials of it, of all programs for one subject.
SHRINKING, ONE, ALL = 1.0, 4.0, 6.0
MOST_BYTES = 20_000

Posed = Callable[[], tuple[Problem, tuple[Any, ...]]]  # the problem, and what the caller handed over


def counterexamples(judged: Judged, limits: Limits) -> Iterator[Counterexample]:
    """One per wrong input of a Function; none of what can't be written down, or does not fail by itself, and none of
    a declared surrogate.

    Cost: nothing where all is right; half a second is usual for an input that is not, 6 s the most for all.
    """

    if surrogate_reason(judged.use.function):
        return

    def posed(kept: Kept, args: tuple[Any, ...]) -> Posed:
        function = judged.use.function
        problem = Problem(
            subject=function,
            args=args,
            names=input_names(function, len(args)),
            wanted=tuple(index for index, want in enumerate(kept.wanted) if want),
            label=judged.use.subject.name,
            original=function,
        )
        return lambda: (problem, args)

    yield from _programs(((fact, posed(kept, args)) for fact, kept, args in judged.wrong()), limits)


def counterexamples_of_callable(
    fn: Any, given: tuple[Any, ...], facts: Iterable[object], limits: Limits
) -> Iterator[Counterexample]:
    """The same of a callable or module: for the wrong verdicts among ``facts``, at ``given``."""
    wrong = (fact for fact in facts if isinstance(fact, GradientVerdict) and fact.verdict == "wrong")
    yield from _programs(((fact, lambda: (pose(fn, given), given)) for fact in wrong), limits)


def _programs(wrong: Iterable[tuple[GradientVerdict, Posed]], limits: Limits) -> Iterator[Counterexample]:
    until = clock.now() + ALL
    for fact, posed in wrong:
        left = min(ONE, until - clock.now(), limits.seconds)
        if left <= 0:
            return

        def work(fact: GradientVerdict = fact, posed: Posed = posed) -> str:
            problem, given = posed()
            return counterexample(problem, given, [finding_of(problem, as_input_verdict(fact))], seconds=SHRINKING)

        text = attempt(work, Limits(left, limits.memory_bytes)).value
        if text and len(text.encode()) < MOST_BYTES:
            yield Counterexample(
                id=f"counterexample {fact.input_index} {fact.subject}",
                subject=fact.subject,
                verdict=fact.id,
                text=text,
                tried_on=fact.tried_on,
            )
