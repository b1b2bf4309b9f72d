"""A finding becomes candidate source. Nothing here has been tried: the prove room does that.

The only room that knows libcst. No template looks at the names of the user's variables.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from gradwright.doctor.rewrite.rescale_gradient import rescale_gradient
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.rewrite.vectorize_loop import vectorize_loop
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

if TYPE_CHECKING:
    from torch.autograd import Function

__all__ = ["Proposal", "prepare_to_run", "propose", "propose_by_running"]

REWRITES: dict[str, Callable[[Finding, Sequence[Fact], SourceText], tuple[Proposal, ...]]] = {
    "vectorize_loop": vectorize_loop,
    "rescale_gradient": rescale_gradient,
}

REWRITE_OF_RULE = {
    "python-loop-over-elements": "vectorize_loop",
    "gradient-value-wrong": "rescale_gradient",
}
# Where the text alone is not enough, or what it proposed has failed: the subject is run.
DERIVED_FOR_RULE = frozenset({"gradient-value-wrong"})


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


def prepare_to_run() -> None:
    """Import what tracing needs (seconds, once): a forked child may write no file, and torch's tracer does so then."""
    for module in ("torch._dynamo", "gradwright.functions.derive.trace"):
        importlib.import_module(module)


def propose_by_running(
    finding: Finding, text: str, function: type[Function], args: Sequence[Any]
) -> tuple[Proposal, ...]:
    """Candidates that need a run of the user's forward at ``args``: for when those of :func:`propose` have failed.

    Call it where that does no harm (a forked child), with small inputs. Cost: a trace and a quick check, a second.
    """
    if finding.name not in DERIVED_FOR_RULE:
        return ()
    from gradwright.doctor.rewrite.derive_backward import derive_backward  # it imports what traces

    try:
        return derive_backward(finding, SourceText(finding.location.path, text), function, args)
    except (DeclinedError, cst.ParserSyntaxError):
        return ()
