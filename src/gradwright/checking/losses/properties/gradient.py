"""Is the gradient the derivative of the value? Asked of the checks of ``gw.check``, also of the unreduced loss.

A fused loss whose backward takes its cotangent for 1 is right after a mean and silently wrong for reduction="none"
(Liger-Kernel#968, #1298).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from gradwright.checking.check import check
from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.report import Finding, NotChecked
from gradwright.errors import UsageError


def run(case: Case) -> Iterator[Answer]:
    loss, sample = case.loss, case.sample
    seen: set[tuple[str, str]] = set()
    for reduction in (None, "none") if loss.reduction else (None,):
        subject = _called(case, reduction)
        prediction = sample.prediction.to(loss.device, loss.dtype).detach().requires_grad_()
        with loss.quiet():
            if reduction is not None and not _takes(case, reduction):
                continue
            try:
                report = check(
                    subject,
                    prediction,
                    level="standard" if case.level == "full" else "quick",
                    seed=case.seed,
                    seconds=max(case.seconds_left(), 0.1),
                )
            except UsageError as error:
                yield NotChecked(PROPERTY.title, str(error).splitlines()[0])
                return
        if reduction is None:
            yield from report.verdicts
        yield from report.not_checked if reduction is None else ()
        for finding in report.findings:
            if (finding.code, finding.cause) not in seen:
                seen.add((finding.code, finding.cause))
                yield _of_loss(case, finding, reduction)


def _takes(case: Case, reduction: str) -> bool:
    try:
        return case.loss.raw(case.sample, reduction=reduction).numel() > 1
    except Exception:  # a loss may know other reductions only
        return False


def _called(case: Case, reduction: str | None) -> Callable[[Tensor], Any]:
    """The loss as a function of its prediction alone; nothing that the caller owns is handed to it."""
    loss, sample = case.loss, case.sample

    def called(prediction: Tensor) -> Any:
        args, keywords = loss.arguments(sample, prediction.dtype)
        args[1 if loss.swapped else 0] = prediction
        callee = loss.callee(prediction.dtype)
        if reduction is not None and loss.reduction == "argument":
            keywords["reduction"] = reduction
        elif reduction is not None:
            callee = copy.copy(callee)
            callee.reduction = reduction
        return callee(*args, **keywords)

    called.__qualname__ = called.__name__ = loss.label
    return called


def _of_loss(case: Case, finding: Finding, reduction: str | None) -> Finding:
    note = f'seen with reduction="{reduction}". ' if reduction is not None else ""
    case.specimens.append((finding, (case.sample,), case.loss.dtype))
    return dataclasses.replace(finding, location=case.location, why=note + finding.why, check=PROPERTY.title)


PROPERTY = Property(1, "gradient is the derivative of the value", "quick", {}, run, watched=False)
