"""A finding becomes candidate source. Nothing here has been tried: the prove room does that.

The only room that knows libcst. No template looks at the names of the user's variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from gradwright.doctor.rewrite.rescale_gradient import rescale_gradient
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.rewrite.vectorize_loop import vectorize_loop
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

__all__ = ["Proposal", "propose"]

REWRITES: dict[str, Callable[[Finding, Sequence[Fact], SourceText], tuple[Proposal, ...]]] = {
    "vectorize_loop": vectorize_loop,
    "rescale_gradient": rescale_gradient,
}

REWRITE_OF_RULE = {
    "python-loop-over-elements": "vectorize_loop",
    "gradient-value-wrong": "rescale_gradient",
}


def propose(finding: Finding, facts: Sequence[Fact], text: str) -> tuple[Proposal, ...]:
    """Candidates for one finding, best first; none where the source is not of a kind that can be rewritten safely.

    ``facts`` are those of the finding's evidence (more do no harm), ``text`` is the whole file at ``finding.location``
    with its newlines as they are. Cost: one parse of the file, about a second for 3,000 lines.
    """
    rewrite = REWRITE_OF_RULE.get(finding.name)
    if rewrite is None:
        return ()
    try:
        return REWRITES[rewrite](finding, facts, SourceText(finding.location.path, text))
    except (DeclinedError, cst.ParserSyntaxError):
        return ()
