"""Probed: is it right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact, Phase, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientVerdict(Fact):
    """The gradient with respect to one input, on one specimen.

    ``cause`` is "" when right; "constant factor" (then ``factor`` holds what the backward returned divided by the
    truth), "sum for mean" (likewise), "sign", "dropped term" (with a ``factor`` of 0: nothing was returned), "missing
    grad_output", "nonlinear in the cotangent", "transpose", "permutation", "swapped inputs", "additive offset",
    "region", "batch rows mixed", "precision lost", "nondeterminism", "state kept between calls", or "formula"; of a
    surrogate "identity" (a forward that changes nothing), "piecewise constant" or "gradient held back" (a callable
    that detaches). ``reason`` says the details. ``error`` and ``tolerance`` are relative to the largest entry.
    ``returned`` and ``expected`` are the values at index ``at``, the entry that differs most.
    ``oracles`` names those that judged: "autograd of the forward", "finite differences". ``cotangents``: the error
    under each cotangent that was tried, by its name. ``untried``: checks that this specimen did not allow, with why.
    """

    specimen: str
    input_index: int
    input_name: str
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
    tried_on: str = ""
    reason: str = ""
    cotangents: tuple[tuple[str, float], ...] = ()
    untried: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCount(Fact):
    """``backward`` returned ``returned`` gradients where ``forward`` takes ``expected`` inputs."""

    expected: int
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated(Fact):
    """A call changed the values of something that is not its own (by checksum, so ``.data`` is seen too).

    ``declared``: it was an input that the forward marked with ``mark_dirty``.
    """

    phase: Phase
    what: Literal["input", "cotangent", "saved tensor"]
    name: str
    declared: bool = False
    specimen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw(Fact):
    """A finding of the check room's about one Function on one specimen, beside the value: see ``gw.check``.

    ``code`` is the rule's that tells it, ``cause`` the check room's word, ``input`` the input concerned ("": none).
    """

    code: str
    cause: str
    severity: Literal["error", "warning", "info"]
    message: str
    why: str = ""
    do: str = ""
    input: str = ""
    specimen: str = ""
    tried_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSurrogate(Fact):
    """The user said ``@gw.surrogate(reason=...)``."""

    reason: str
