"""``g * (x > 0).float()`` becomes ``torch.where(x > 0, g, 0)``, which is 0 where the mask is, whatever is left out."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal


def choose_by_mask(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    suspect = splice.suspect("mask product", finding)
    mask, other = map(splice.code, suspect.parts)
    new = f"{splice.torch(suspect.function)}.where({mask}, {other}, 0)"
    text = splice.replaced([(splice.span(suspect.node), new)])
    return (
        splice.proposal(
            "choose_by_mask",
            suspect.function,
            text,
            "what the mask leaves out is 0, also where it is inf or NaN",
            unsafe=f"where the mask is False and `{' '.join(other.split())}` is inf or NaN, the product is NaN and "
            "this is 0",
        ),
    )
