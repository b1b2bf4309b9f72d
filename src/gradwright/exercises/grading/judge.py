"""A file is judged: step by step, up to the first that is not right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gradwright.exercises.catalog import Exercise
from gradwright.exercises.grading.demands.allowed import only_what_is_allowed
from gradwright.exercises.grading.gradients import ask_gradient
from gradwright.exercises.grading.grading import Grading, grading_of, solution_of
from gradwright.exercises.grading.learner import load, named
from gradwright.exercises.grading.limits import NoLimits
from gradwright.exercises.grading.speed import speed_of
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.grading.values import ask_value
from gradwright.exercises.outcome import NotYet, Outcome, Step
from gradwright.ground.threads import at_most


def judge(exercise: Exercise, file: Path, *, seed: int, limits: NoLimits | None = None, timed: bool = True) -> Outcome:
    """Runs ``file`` in this very process.  ``timed``: hold a right answer to the clock, too.

    Raises: whatever is wrong with the grader itself; nothing that the file raises.
    """
    limits = limits or NoLimits()
    grading, solution = grading_of(exercise), solution_of(exercise)
    steps = limits.steps
    with at_most(1):
        try:
            tried = _begun(grading, solution, file, seed, limits)
        except NotYet as fault:
            left = tuple(Step(name, None) for name, _ in _asked(grading))
            return Outcome((Step("file", False), *left), fault.failure, seed=seed)
        asked = _asked(grading)
        for number, (name, ask) in enumerate(asked):
            try:
                said = ask(tried)
            except NotYet as fault:
                left = tuple(Step(name, None) for name, _ in asked[number + 1 :])
                return Outcome((*steps, Step(name, False), *left), fault.failure, seed=seed)
            steps.append(Step(name, True, said))
        try:
            speed = speed_of(tried) if timed else None
        except NotYet as fault:  # on an input larger than those before
            return Outcome((*steps, Step("speed", False)), fault.failure, seed=seed)
    return Outcome(tuple(steps), None, speed, seed)


def _begun(grading: Grading, solution: Callable[..., object], file: Path, seed: int, limits: NoLimits) -> Tried:
    with limits.during("running the file"):
        module = load(file)
    defined = named(module, grading.name, file)
    return Tried(grading, file, defined, grading.kind(defined, grading.name), solution, seed, limits)


def _asked(grading: Grading) -> list[tuple[str, Callable[[Tried], str]]]:
    gradient = [("gradient", ask_gradient)] if grading.check is not None else []
    allowed = only_what_is_allowed(*grading.forbidden)
    return [("value", ask_value), *gradient, *((one.name, one.ask) for one in (allowed, *grading.demands))]
