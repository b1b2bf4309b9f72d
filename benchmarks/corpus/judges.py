"""Who judges: gradwright at two levels, gradcheck slow and fast, gradgradcheck, opcheck. One call, one verdict.

A judge that raises while it judges has rejected, if it is gradcheck or opcheck (that is how they reject); gradwright
never raises for a subject's sake: if it does, that is no verdict (``rejected`` is ``None``), and is told.
gradcheck is asked as a careful user would: a forward that draws random numbers is seeded, one that works in place gets
clones, and gradgradcheck is left out where the backward is declared ``once_differentiable``.
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.autograd import gradcheck, gradgradcheck

import gradwright as gw
from corpus.as_custom_op import opcheck_accepts
from corpus.cases import Case
from gradwright.checking.report import Level


@dataclass
class Verdict:
    """``rejected``: ``None`` if there is no verdict (out of time, or it does not apply). ``causes`` and ``codes``: of
    gradwright's findings that reject, errors first."""

    rejected: bool | None
    why: str = ""
    causes: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    seconds: float = 0.0


class OverTime(BaseException):
    """Not an Exception, so that no judge takes it for one of the subject's."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> None:
        raise OverTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def asked(case: Case) -> Callable[..., Any]:
    """What gradcheck is given."""
    function = case.build()
    apply: Callable[..., Any] = getattr(function, "apply", function)

    def careful(*args: Any) -> Any:
        if case.stochastic:
            torch.manual_seed(0)
        return apply(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return careful if case.stochastic or case.in_place else apply


def by_gradcheck(case: Case, **options: Any) -> Verdict:
    return _raising(lambda: gradcheck(asked(case), case.args(), **options))


def by_gradgradcheck(case: Case) -> Verdict:
    if case.once:
        return Verdict(None, "declared once_differentiable")
    return _raising(lambda: gradgradcheck(asked(case), case.args()))


def by_opcheck(case: Case) -> Verdict:
    return _raising(lambda: opcheck_accepts(case))


def _raising(judge: Callable[[], bool | None]) -> Verdict:
    try:
        accepted = judge()
    except Exception as error:
        return Verdict(True, _short(error))
    return Verdict(None if accepted is None else not accepted)


def by_gradwright(case: Case, level: Level, seconds: float) -> Verdict:
    try:
        report = gw.check(case.build(), *case.args(), level=level, seconds=seconds)
    except Exception as error:  # gradwright's own fault: no verdict
        return Verdict(None, f"raised {_short(error)}")
    faults = [finding for finding in report.findings if finding.severity in ("error", "warning")]
    why = "; ".join(f"{finding.code} {finding.message}" for finding in faults[:3])
    if report.ok:
        why = "not checked: " + "; ".join(str(line) for line in report.not_checked) if report.not_checked else ""
    return Verdict(not report.ok, why[:400], [f.cause for f in faults], [f.code for f in faults])


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {next((line for line in str(error).splitlines() if line.strip()), '')}"[:200]


JUDGES: dict[str, Callable[[Case, float], Verdict]] = {
    "quick": lambda case, seconds: by_gradwright(case, "quick", seconds),
    "standard": lambda case, seconds: by_gradwright(case, "standard", seconds),
    "gradcheck": lambda case, _: by_gradcheck(case),
    "gradcheck fast": lambda case, _: by_gradcheck(case, fast_mode=True),
    "gradgradcheck": lambda case, _: by_gradgradcheck(case),
    "opcheck": lambda case, _: by_opcheck(case),
}


def judged(case: Case, judge: str, seconds: float) -> Verdict:
    """One judge's verdict within a time limit."""
    started = time.perf_counter()
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            verdict = JUDGES[judge](case, seconds - 1)
    except OverTime:
        verdict = Verdict(None, f"time limit of {seconds:g} s")
    verdict.seconds = time.perf_counter() - started
    return verdict
