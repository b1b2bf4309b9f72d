"""What an exercise's ``__init__.py`` says of it: its name, inputs, reference and demands."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.kinds import Kind, plain_function

if TYPE_CHECKING:
    from gradwright.exercises.catalog import Exercise
    from gradwright.exercises.grading.tried import Tried


@dataclass(frozen=True)
class Demand:
    """``ask`` says in a few words how the demand is met, or raises NotYet."""

    name: str
    ask: Callable[[Tried], str]


def _as_called(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*args)


@dataclass(frozen=True, kw_only=True)
class Grading:
    """``name``: what the file must define; ``arguments``: what it is called with.

    ``reference``: the same in plain torch, called in float64, differentiated by autograd. ``cases``: the inputs;
    the first is an ordinary one. ``large``: what the clock is held to. ``kind``: what the defined thing is.
    ``forbidden``: operations of torch's by name (``huber_loss``), Python functions by their module (``torch.autograd``,
    ``gradwright.losses``). ``builtin``: what the exercise rebuilds. ``check``: the call of ``gw.check``; ``None``:
    the gradient is not asked. ``outcome``: what is compared of a call, if that is not what it returns.
    ``surrogate``: the gradient that is meant, where it is not that of the reference.
    """

    name: str
    arguments: tuple[str, ...]
    reference: Callable[..., Any]
    cases: Callable[[Draws], Sequence[Case]]
    large: Callable[[Draws], Case]
    kind: Kind = plain_function
    forbidden: Sequence[str] = ()
    builtin: Callable[..., Any] | None = None
    check: Callable[[Any, Draws], CheckReport] | None = None
    surrogate: Callable[..., Any] | None = None
    outcome: Callable[[Callable[..., Any], tuple[Any, ...]], Any] = _as_called
    demands: Sequence[Demand] = ()


@functools.cache
def grading_of(exercise: Exercise) -> Grading:
    """Cost: imports torch."""
    grading = importlib.import_module(exercise.module).GRADING
    assert isinstance(grading, Grading)
    return grading


@functools.cache
def solution_of(exercise: Exercise) -> Callable[..., Any]:
    """Ours, ready to be called."""
    grading = grading_of(exercise)
    return grading.kind(getattr(importlib.import_module(f"{exercise.module}.solution"), grading.name), grading.name)


def called_as(grading: Grading) -> str:
    """``huber(prediction, target, delta)``"""
    return f"{grading.name}({', '.join(grading.arguments)})"


def defined_at(subject: Any) -> int:
    """The line of a definition (of a class: of its forward), 0 if it can't be told."""
    function = getattr(subject, "forward", subject) if isinstance(subject, type) else subject
    try:
        return inspect.getsourcelines(inspect.unwrap(function))[1]
    except (OSError, TypeError, ValueError):
        return 0
