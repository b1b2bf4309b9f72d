"""What the rules on flaws share: a flaw is a finding of the check room's, and becomes one of the doctor's."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw, FunctionCalls
from gradwright.doctor.session.model import Finding, Severity, Subject


def told(rule: Rule, subject: Subject, facts: Facts, severity: Severity | None = None) -> Iterator[Finding]:
    """A finding for each flaw of this code, inputs and causes told once. ``severity``: instead of the check's own."""
    places = next(iter(facts.of(FunctionCalls)), None)
    seen = set()
    for flaw in facts.of(Flaw):
        if flaw.code != rule.code or (flaw.input, flaw.cause) in seen:
            continue
        seen.add((flaw.input, flaw.cause))
        yield rule.finding(
            subject,
            at=(places and places.backward_at) or subject.location,
            message=flaw.message,
            why=f"{flaw.why} (tried on {flaw.tried_on})" if flaw.why else f"Tried on {flaw.tried_on}.",
            hints=[flaw.do] if flaw.do else [],
            evidence=[flaw.id],
            # What an installed package does has its reasons, and is not the user's to mend.
            severity="info" if subject.origin == "library" else severity or flaw.severity,
        )
