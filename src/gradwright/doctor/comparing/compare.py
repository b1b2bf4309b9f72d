"""Two reports in, what changed out."""

from __future__ import annotations

from gradwright.doctor.comparing.comparison import Comparison
from gradwright.doctor.comparing.findings import finding_changes
from gradwright.doctor.comparing.functions import gradient_changes, time_changes
from gradwright.doctor.comparing.matching import paired
from gradwright.doctor.comparing.runs import cautions, newly_unexamined
from gradwright.doctor.comparing.subjects import functions, renames
from gradwright.doctor.session.model import Report

FACTOR = 1.5


def compare(old: Report, new: Report, *, factor: float = FACTOR, times_gate: bool = False) -> Comparison:
    """What got better and what got worse from ``old`` to ``new``.

    ``factor``: times that changed by less are not told; ``times_gate``: slower ones count as worse.
    Cost: linear in the findings and facts, but for one walk over the facts per Function.

    >>> compare(Report(), Report()).worse
    False
    """
    names = renames(old, new)
    pairs = list(paired(old, new, names))
    subjects = functions(old, new, pairs)
    changes = list(finding_changes(old, new, pairs, subjects, names))
    as_before = sum(change is None or change.as_before for change in changes)
    return Comparison(
        findings=tuple(change for change in changes if change is not None),
        gradients=tuple(gradient_changes(old, new, subjects)),
        times=tuple(time_changes(old, new, factor, subjects)),
        unexamined=tuple(newly_unexamined(old, new)),
        cautions=tuple(dict.fromkeys(cautions(old, new))),
        same=as_before,
        times_gate=times_gate,
    )
