"""``assert_gradients``: a check whose findings fail a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport, Level
from gradwright.errors import GradientError


def assert_gradients(
    fn: Any,
    *inputs: Any,
    level: Level = "standard",
    reference: Callable[..., Any] | None = None,
    expect: Callable[..., Any] | None = None,
    seed: int = 0,
    seconds: float = 60.0,
    allow: Iterable[str] = (),
) -> CheckReport:
    """Fail unless ``gw.check(fn, *inputs, ...)`` finds nothing; return its report otherwise.

    Arguments as for ``gw.check``; ``allow``: codes that are accepted here ("GW213"; "GW2" means all that begin so).
    Shapes, dtypes, cost: those of ``gw.check``.
    Raises: GradientError (an AssertionError) with the whole report, also where no gradient could be judged at all,
    because a test that looked at nothing must not pass; UsageError for what can't be checked.

    >>> import torch
    >>> assert_gradients(torch.sin, torch.randn(3)).ok
    True
    >>> assert_gradients(torch.zeros_like, torch.randn(3))
    Traceback (most recent call last):
        ...
    gradwright.errors.GradientError: ...
    """
    __tracebackhide__ = True
    report = check(fn, *inputs, level=level, reference=reference, expect=expect, seed=seed, seconds=seconds)
    allowed = tuple(allow)
    faults = [finding for finding in report.findings if finding.severity != "info"]
    if any(not finding.code.startswith(allowed) if allowed else True for finding in faults):
        raise GradientError(str(report))
    if not faults and all(verdict.verdict == "unknown" for verdict in report.verdicts):
        raise GradientError(f"{report}\nno gradient could be judged, so this test shows nothing\n")
    return report
