"""What the checks answer: frozen data without tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["right", "wrong", "surrogate", "unknown"]
Phase = Literal["forward", "backward"]

AUTOGRAD = "autograd of the forward"
DUAL = "forward-mode autograd of the forward"
DIFFERENCES = "finite differences"
REFERENCE = "the reference in float64"
EXPECTED = "the formula given as expect"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVerdict:
    """Is the gradient with respect to one input right, on one call's arguments?

    ``cause`` is "" when right or unknown. When wrong it is one of "constant factor" (``factor`` is what was returned
    divided by the truth), "sign", "sum for mean", "missing grad_output", "nonlinear in the cotangent", "transpose",
    "permutation", "swapped inputs", "dropped term" (zeros, too), "additive offset", "region", "batch rows mixed",
    "precision lost", "not finite" (NaN or inf where the derivative is neither), "nondeterminism", "state kept between
    calls" and, where nothing fits, "formula". Of a surrogate it is "identity",
    "piecewise constant" or (of a callable that detaches) "gradient held back". ``details`` holds plain values by
    name: the region, the axes, what was dropped; of a surrogate, the ``fitted`` cause.
    ``error`` and ``tolerance`` are relative to the largest entry of the truth. ``returned`` and ``expected`` are the
    values at index ``at``, the entry that differs most. ``oracles`` names those whose word the verdict is, ``checks``
    counts the comparisons made, ``reason`` says in words why the answer is unknown (or what else to know).
    ``cotangents``: of a right or wrong one, the error under each kind of cotangent that was tried, by its name.
    """

    index: int
    name: str
    verdict: Verdict
    cause: str = ""
    factor: float | None = None
    error: float = 0.0
    tolerance: float = 0.0
    at: tuple[int, ...] = ()
    returned: float | None = None
    expected: float | None = None
    oracles: tuple[str, ...] = ()
    checks: int = 0
    reason: str = ""
    cotangents: tuple[tuple[str, float], ...] = ()
    details: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Something that a call changed although it was handed it only to read.

    ``index`` is the position among the arguments, the cotangents or the saved tensors; -1 for a tensor kept as an
    attribute of ``ctx``. ``declared``: the forward marked that input with ``mark_dirty``.
    """

    phase: Phase
    what: Literal["input", "cotangent", "saved tensor"]
    name: str
    index: int
    declared: bool = False
