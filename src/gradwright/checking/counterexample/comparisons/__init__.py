"""The end of each script: a comparison that shows one kind of fault in printed numbers, and an ``assert`` that fails.

Texts over the names that every script defines: ``inputs()`` (fresh), ``call(*inputs)`` (its outputs), ``JUDGED`` (the
positions whose gradient is asked for), ``COTANGENTS``, ``gradients(cotangents)``, ``apart(one, other)``; ``SUBJECT`` of
a Function. ``{at}``: the input concerned, by its place in ``JUDGED``; ``{step}`` and ``{close}``: of the precision.
"""

from __future__ import annotations

from gradwright.checking.counterexample.comparisons.conducts import (
    LAYOUT,
    NONLINEAR,
    REPEATED,
    SUBSETS,
    TRANSFORM,
    UNDEFINED,
)
from gradwright.checking.counterexample.comparisons.returns import COUNT, DTYPE, LEAK, MUTATED, SHAPE
from gradwright.checking.counterexample.comparisons.truths import PRECISION, RAISES, SECOND, VALUE
from gradwright.checking.report import Finding

BY_CODE = {
    "GW101": VALUE,
    "GW102": VALUE,
    "GW103": VALUE,
    "GW104": PRECISION,
    "GW105": NONLINEAR,
    "GW106": SECOND,
    "GW107": REPEATED,
    "GW201": COUNT,
    "GW202": MUTATED,
    "GW203": SHAPE,
    "GW209": LAYOUT,
    "GW210": SUBSETS,
    "GW211": UNDEFINED,
    "GW212": DTYPE,
    "GW213": LEAK,
    "GW214": TRANSFORM,
}
_NEEDS_FUNCTION = {COUNT, SHAPE, DTYPE}


def comparison(finding: Finding, *, is_function: bool) -> str | None:
    """The text for this finding; ``None`` if there is none for its code, or for a subject of this kind."""
    if "raised" in finding.evidence and finding.check == "shapes":
        return RAISES
    text = BY_CODE.get(finding.code)
    return RAISES if text in _NEEDS_FUNCTION and not is_function else text
