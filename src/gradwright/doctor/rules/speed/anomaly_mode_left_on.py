"""What it finds
    Autograd's anomaly mode, on at eight backwards and more, and at most of them.

Why it matters
    It keeps a traceback for every node of the forward and looks at every gradient of the backward for NaN: a step takes
    two to six times as long. It is a tool for one search, not for a training run.

When it is fine
    While a NaN is being looked for: for a few steps, or behind a switch. A few backwards under it are not reported.

The fix
    Leave out `torch.autograd.set_detect_anomaly(True)`, or put `with torch.autograd.detect_anomaly():` around the step
    in question.

References
    Lightning-AI/pytorch-lightning#12344: three times as long.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import AnomalyMode
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW313", "anomaly-mode-left-on", "warning", needs=(AnomalyMode,))

_FEWEST, _SHARE = 8, 0.5


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for mode in facts.of(AnomalyMode):
        if mode.under < _FEWEST or mode.under < _SHARE * mode.backwards:
            continue
        yield RULE.finding(
            subject,
            at=mode.location or subject.location,
            message=f"anomaly mode was on at {mode.under:,} of {mode.backwards:,} backwards",
            why=f"It keeps a traceback for each operation and looks for NaN behind each.{_cost(mode)}",
            hints=[
                "leave it out once the fault is found, or put `with torch.autograd.detect_anomaly():` around one step"
            ],
            evidence=[mode.id],
        )


def _cost(mode: AnomalyMode) -> str:
    if mode.seconds_under <= mode.seconds or not mode.seconds:
        return ""
    return (
        f" A small network's step took {duration(mode.seconds_under)} under it on this machine, and "
        f"{duration(mode.seconds)} without: {mode.seconds_under / mode.seconds:.1f} times as long."
    )
