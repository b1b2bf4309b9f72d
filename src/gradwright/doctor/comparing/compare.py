"""Two reports in, what changed out."""

from __future__ import annotations

from gradwright.doctor.comparing.comparison import Comparison
from gradwright.doctor.comparing.findings import finding_changes
from gradwright.doctor.comparing.functions import gradient_changes, time_changes
from gradwright.doctor.comparing.runs import cautions, newly_unexamined
from gradwright.doctor.session.model import Report

FACTOR = 1.5


def compare(old: Report, new: Report, *, factor: float = FACTOR, times_gate: bool = False) -> Comparison:
    """What got better and what got worse from ``old`` to ``new``.

    ``factor``: times that changed by less are not told; ``times_gate``: slower ones count as worse.
    Cost: linear in the findings and facts, but for one walk over the facts per Function.

    >>> compare(Report(), Report()).worse
    False
    """
    changes = list(finding_changes(old, new))
    return Comparison(
        findings=tuple(change for change in changes if change is not None),
        gradients=tuple(gradient_changes(old, new)),
        times=tuple(time_changes(old, new, factor)),
        unexamined=tuple(newly_unexamined(old, new)),
        cautions=tuple(dict.fromkeys(cautions(old, new))),
        same=changes.count(None),
        times_gate=times_gate,
    )
