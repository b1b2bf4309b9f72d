"""What ``gw.check`` finds in a custom Function on a specimen, beside value and mutation, as facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from gradwright.checking.check import examine
from gradwright.checking.context import input_names
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, Gathered
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.verdicts import BESIDE_VALUE, with_more
from gradwright.doctor.session.facts import Fact, Flaw, GradientVerdict
from gradwright.doctor.session.model import NotExamined
from gradwright.ground import clock

# Their answers are facts of their own, which other rules read.
_MADE_ALREADY = ("value", "surrogate", "mutation")


def flaw_facts(
    use: FunctionUse,
    kept: Kept,
    args: tuple[Any, ...],
    tried_on: str,
    outputs: Sequence[bool] | None,
    verdicts: Sequence[GradientVerdict],
    limits: Limits,
) -> Iterator[Fact | NotExamined]:
    """Every check of level standard, in a forked child; a fact per finding, and ``verdicts`` on this specimen once
    more, with what these checks saw and left out."""

    def work() -> Gathered:
        problem = Problem(
            subject=use.function,
            args=args,
            names=input_names(use.function, len(args)),
            wanted=tuple(index for index, want in enumerate(kept.wanted) if want),
            label=use.subject.name,
            original=use.function,
            deadline=clock.now() + limits.seconds,
            outputs=outputs,
            received=kept.cotangents,
        )
        with torch.inference_mode(False), torch.enable_grad():
            return examine(problem, limits.seconds, without=_MADE_ALREADY)

    tried = attempt(work, Limits(limits.seconds + 2.0, limits.memory_bytes))
    if tried.how != "returned" or tried.value is None:
        yield NotExamined(f"layouts, linearity and contract of {use.subject.name}", tried.why)
        yield from (replace(one, untried=(*one.untried, (BESIDE_VALUE, tried.why))) for one in verdicts)
        return
    yield from (with_more(one, tried.value) for one in verdicts)
    for number, finding in enumerate(tried.value.findings):
        if finding.evidence.get("moved"):  # where the next update takes it: no other call, but this one a step later
            yield from _wrong_a_step_later(finding, verdicts)
            continue
        yield Flaw(
            id=f"flaw {number} {kept.about.id}",
            subject=use.subject.id,
            code=finding.code,
            cause=finding.cause,
            severity=finding.severity,
            message=finding.message,
            why=finding.why,
            do=finding.do,
            input=finding.input,
            specimen=kept.about.id,
            tried_on=tried_on,
        )
    for line in tried.value.not_checked:
        if "time limit" in line.why:
            yield NotExamined(f"{line.what} of {use.subject.name}", line.why)


def _wrong_a_step_later(finding: Finding, verdicts: Sequence[GradientVerdict]) -> Iterator[GradientVerdict]:
    """The verdict on this input once more, at parameters that are no longer all ones or zeros."""
    for one in verdicts:
        if one.input_name == finding.input:
            yield replace(
                one,
                id=f"{one.id} moved",
                verdict="wrong",
                cause=finding.cause,
                reason=f"where {finding.evidence['variant']}",
                tried_on=f"{one.tried_on}; {finding.evidence['variant']}",
                error=finding.evidence["worst_error"],
                cotangents=(),
                **{name: finding.evidence[name] for name in ("factor", "at", "returned", "expected", "oracles")},
            )
