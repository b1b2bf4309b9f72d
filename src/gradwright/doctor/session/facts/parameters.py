"""What the run shows of parameters: which get gradients, which an optimizer holds; and of the modes of modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location

Standing = Literal["unregistered", "replaced", "beside", "upstream", "pretrained", "formerly", "alone"]
Absence = Literal["all", "cut", "unused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideParameters(Fact):
    """Parameters that get gradients, are in no optimizer of the run, and keep their values.

    ``standing``: in what their module does not look into (``holder`` names it: a list, a dict, a plain tensor); in the
    place of others, which the optimizer holds and no gradient reaches; beside parameters of the same module that are in
    the optimizer; all of them further from the loss than those are; of a module that was loaded; held by an optimizer
    before; a module or parameter of its own. ``made_at``: where the optimizer was.
    """

    names: tuple[str, ...]
    count: int
    module: str
    standing: Standing
    steps: int
    holder: str = ""
    made_at: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedParameters(Fact):
    """Parameters of an optimizer that had no gradient at any of the steps that were looked at.

    ``absence``: all that it holds; those of modules that were called all the same ("cut"; ``called_at`` is where), and
    those that no one called with gradients on (``unrecorded_at``: where one was called with gradients off).
    ``made_at``: where the optimizer was. ``cut_at``: the call, ``cut_by`` as a text, that was given something with a
    graph that leads to them, and gave something without one that went on into the loss.
    """

    names: tuple[str, ...]
    count: int
    held: int
    absence: Absence
    steps: int
    modules: tuple[str, ...] = ()
    made_at: Location | None = None
    called_at: Location | None = None
    unrecorded_at: Location | None = None
    cut_at: Location | None = None
    cut_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeLeft(Fact):
    """A module with dropout or batch normalisation that takes part, and is in the wrong mode.

    ``wrong``: "training" where steps were taken in eval mode after ``eval()`` at ``switched_at``, which ``switches``
    calls of it left so; "evaluation" where it was run without gradients in train mode after the last step; "teacher"
    where it answered in train mode at ``steps_before`` looks, up to step ``steps_after``, and nothing moved it;
    "function" where it was in eval mode, and dropout was called in it as a function (``parts``).
    """

    module: str
    parts: tuple[str, ...]
    wrong: Literal["training", "evaluation", "teacher", "function"]
    steps_before: int
    steps_after: int
    switches: int = 0
    location: Location | None = None
