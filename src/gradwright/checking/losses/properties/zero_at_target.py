"""Is a perfect prediction worth nothing? A constant is harmless to the gradient, and makes the number meaningless.

The constant that normalises a log-likelihood belongs there, and so does one too small to see.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import is_log_likelihood, told
from gradwright.checking.report import NotChecked

_SMALL = 0.02  # of the value at an error of 1: what is added below a root, against a division by 0, for smoothing


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.zero_at_target
    value = case.at_target
    if asked is False or value is None or value <= _SMALL * case.typical or case.upside_down:
        return
    if asked is None:
        if case.free:
            yield NotChecked(PROPERTY.title, "it takes further arguments, on which its least value may depend")
            return
        if any(after < value - 1e-9 * abs(value) for profile in case.profiles for after in profile.values):
            return  # its least value is elsewhere: another property's business
        if case.is_regression and is_log_likelihood(case):
            return
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="not zero at a perfect prediction",
        message=f"is {told(value)} for a perfect prediction",
        why=f"an error of 1 costs {told(case.typical)}",
        do="take the constant out, or say zero_at_target=False",
        severity="error" if asked else "warning",
        at=(case.profiles[0].ray.at(0.0),) if case.profiles else (),
        value=value,
    )


PROPERTY = Property(6, "zero at a perfect prediction", "quick", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
