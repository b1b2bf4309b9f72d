"""What the rules on gradients share."""

from __future__ import annotations

from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import DeclaredSurrogate, GradientVerdict
from gradwright.doctor.session.model import Subject


def explained_within(subject: Subject, facts: Facts) -> bool:
    """Of a callable: does a Function inside have another gradient than its forward? Then that is where it is told."""
    if subject.kind == "function":
        return False
    inside = (verdict for verdict in facts.all(GradientVerdict) if verdict.subject != subject.id)
    return any(True for _ in facts.all(DeclaredSurrogate)) or any(
        verdict.verdict in ("wrong", "surrogate") for verdict in inside
    )
