"""Probed: what a Function computes, and a program that shows where its gradient is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFormula(Fact):
    """What a forward computes, as a formula of its inputs, and the gradients that follow from it.

    ``forward``: lines of Python-like text, the last one names the result; ``gradients``: pairs of an input's name and
    the formula of its gradient, ``grad_output`` being the cotangent (``grad_output_0``, ... of several outputs): an
    expression, after assignments, one a line, where it is long; it may use the names that ``forward`` gives. Read off
    the operations of one call (``tried_on``), so a branch that was not taken is not in it. Every gradient was found
    right there; one that is none, or has no short formula, is left out.
    """

    forward: str
    gradients: tuple[tuple[str, str], ...] = ()
    tried_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample(Fact):
    """A program that stands alone and shows a wrong gradient: ``text`` is Python; ``verdict`` is the verdict's id."""

    verdict: str
    text: str
    tried_on: str = ""
