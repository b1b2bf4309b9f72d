"""The first fault as a script that anyone can run: the call made small, the subject's source, a failing ``assert``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.counterexample.script import script
from gradwright.checking.counterexample.shrink import shrunk, with_args
from gradwright.checking.counterexample.start import Args, starting_point
from gradwright.checking.precision import DOUBLE, Precision
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.trial import NotJudgeable, Trial
from gradwright.ground.forked import in_child, torch_survives_fork

__all__ = ["counterexample"]


def counterexample(problem: Problem, inputs: Sequence[Any], findings: Sequence[Finding], seconds: float = 5.0) -> str:
    """A script for the first of ``findings`` that has one, "" if none has.

    ``inputs``: what the caller handed over, of which ``problem`` is the flat form. Cost: about ``seconds`` at most.
    Nothing of the caller's is changed; raises nothing that the subject raises.
    """
    problem = with_args(problem, problem.args, None)
    for finding in findings:
        if finding.severity == "info":
            continue
        try:
            with torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _script(problem, inputs, finding, seconds)
        except Exception:  # no source, no literal; and the subject is someone else's code
            continue
        if found:
            return found
    return ""


def _script(problem: Problem, inputs: Sequence[Any], finding: Finding, seconds: float) -> str:
    """The first script that fails, of the call made small, else of the call as it was."""
    start = starting_point(problem, finding, seconds)
    small = start.args
    if start.holds(start.args):
        small = shrunk(problem.original, start.args, start.holds, seed=problem.seed, seconds=seconds)
    for args in [small] if small is start.args else [small, start.args]:
        called = start.called(args)
        precision, drawn = _cotangents(problem, called)
        chosen = with_args(problem, called, None)
        for cotangents in _simpler(drawn):
            for copied in (False, True) if finding.code != "GW202" else (False,):
                text = script(chosen, inputs, finding, cotangents, precision, copied=copied)
                if fails(text):
                    return text
    return ""


def _cotangents(problem: Problem, args: Args) -> tuple[Precision, list[Tensor]]:
    """The precision of the judgement, and the cotangents drawn for the outputs of this call."""
    try:
        given = problem.trial
    except NotJudgeable:  # the backward raises, which is what the script shows
        given = Trial(problem.subject, problem.args, problem.wanted, DOUBLE, seed=problem.seed, deadline=None)
    return given.precision, given.at(list(args)).cotangents


def _simpler(drawn: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The same signs with small integers, rounded to quarters, and as they were drawn."""
    simple = [torch.arange(c.numel(), device=c.device).reshape(c.shape) % 3 + 1 for c in drawn]
    yield [(c.sgn() if c.is_complex() else c.sign()) * s for c, s in zip(drawn, simple, strict=True)]
    if not any(c.is_complex() for c in drawn):
        yield [(c * 4).round() / 4 for c in drawn]
    yield list(drawn)


def fails(text: str) -> bool:
    """Does the script end in an AssertionError? Where it can't be run in a process of its own, it is believed."""
    if not torch_survives_fork():
        return True

    def work() -> bool:
        try:
            exec(compile(text, "counterexample.py", "exec"), {"__name__": "counterexample"})  # the script, by itself
        except AssertionError:
            return True
        return False

    outcome = in_child(work, seconds=10)
    return outcome.how == "returned" and bool(outcome.value)
