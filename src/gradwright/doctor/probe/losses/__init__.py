"""Losses of the user's: which of ``gradwright.losses`` each one is, by its values."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from gradwright.doctor.observed import LossUse
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.session.facts import Fact, KnownLoss
from gradwright.doctor.session.model import NotExamined, Subject


def probe_loss(use: LossUse, limits: Limits) -> Iterator[Subject | Fact | NotExamined]:
    """What a function that returned a loss in a script is; it becomes a subject where it is known."""
    for found in _tried(use.subject, use.function, use.names, use.args, limits):
        yield use.subject
        yield found


def losses_of_callable(subject: Subject, function: FunctionType, args: tuple[Any, ...]) -> Iterator[Fact | NotExamined]:
    """What the function is that somebody asks about; ``args``: of a method, with its object."""
    code = function.__code__
    yield from _tried(subject, function, code.co_varnames[: code.co_argcount][: len(args)], args, Limits())


def _tried(
    subject: Subject, function: FunctionType, names: tuple[str, ...], args: tuple[Any, ...], limits: Limits
) -> Iterator[Fact | NotExamined]:
    def work() -> list[KnownLoss]:
        from gradwright.doctor.probe.losses.recognising import known_loss

        return list(known_loss(subject, function, names, args))

    done = attempt(work, limits)
    if done.how == "returned":
        yield from done.value or ()
    else:
        yield NotExamined(f"whether {subject.name} is a known loss", done.why)
