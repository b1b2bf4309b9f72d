"""Detours through NumPy are told of only where torch was tried, does the same and is clearly faster."""

from __future__ import annotations

from collections.abc import Callable

from gradwright.doctor import rules
from gradwright.doctor.rules.speed.numpy_detour import RULE
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import NumpyDetour, TorchTwin
from gradwright.doctor.session.journal import Journal
from gradwright.doctor.session.model import Report, Source
from gradwright.doctor.treatment.cases import Case
from gradwright.doctor.treatment.trials import Tried

WORTH_A_TRY_SHARE = 0.05
WORTH_TELLING = 1.5


def leave_numpy(detour: NumpyDetour, report: Report, source: Source, prove: Callable[[Case], Tried],
                journal: Journal, selection: Selection) -> None:  # fmt: skip
    """``prove``: a case on its way to a fix. ``selection`` takes what is found."""
    about = report.subject(detour.subject)
    if about is None or detour.share_of_step < WORTH_A_TRY_SHARE:
        return
    suspicion = RULE.finding(about, at=detour.location, message="", why="", evidence=[detour.id])
    journal.progress("proving", f"torch in place of NumPy in {about.name}")
    tried = prove(Case("leave_numpy", suspicion, [detour], source))
    before, after = (tried.fix.proof.before_seconds, tried.fix.proof.after_seconds) if tried.fix else (None, None)
    if not before or not after or before < WORTH_TELLING * after:
        return
    twin = TorchTwin(
        id=f"torch twin {detour.id}",
        subject=detour.subject,
        location=detour.location,
        text=detour.text,
        before_seconds=before,
        after_seconds=after,
        share_of_step=detour.share_of_step,
        tried_on=detour.tried_on,
    )
    journal.add(twin)
    for finding in rules.judge([about], [*report.facts, twin]):
        if twin.id in finding.evidence:
            selection.tell(journal, finding.with_fix(tried.candidates, tried.fix))
