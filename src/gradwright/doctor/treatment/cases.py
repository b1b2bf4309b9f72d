"""A finding on its way to a fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwright.doctor.session.facts import Fact, KnownLoss
from gradwright.doctor.session.model import Finding, Source

if TYPE_CHECKING:
    from gradwright.doctor.prove import Expect
    from gradwright.doctor.session.proposal import Proposal


@dataclass(frozen=True)
class Case:
    """A finding with the rewrite that its rule names, the facts that show it, and the file it stands in."""

    rewrite: str
    finding: Finding
    evidence: Sequence[Fact]
    source: Source

    @property
    def expect(self) -> Expect:
        """What a fix of it has to do beside being no worse."""
        for fact in self.evidence:
            if isinstance(fact, KnownLoss):
                return "sound" if fact.wrong_at else "same"
        expected: dict[str, Expect] = {"gradient": "right", "numerics": "finite", "memory": "kept"}
        return expected.get(self.finding.category, "same")

    def by_text(self) -> tuple[Proposal, ...]:
        from gradwright.doctor.rewrite import propose

        return propose(self.rewrite, self.finding, self.evidence, self.source.text)
