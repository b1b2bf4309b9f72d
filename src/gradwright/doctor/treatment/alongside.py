"""Cheap loops of a Function, mended along with the slow one beside them: once that is quick, they are what is slow."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.session.facts import LoopShape
from gradwright.doctor.session.model import Report, Source
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.seen import Seen

if TYPE_CHECKING:
    from gradwright.doctor.session.proposal import Proposal

# A loop that is no fault by itself is rewritten where that is worth it: see ``ArrayTwin``.
WORTH_A_TRY_SHARE = 0.05
WORTH_A_TRY_ITERATIONS = 8


def beside(shape: LoopShape, report: Report) -> list[LoopShape]:
    """The cheap loops of the same Function, of which each goes with one slow loop alone.

    That is the slowest of its own phase, or of the Function where its phase has no slow one.
    """
    shapes = [one for one in report.of(LoopShape) if one.subject == shape.subject]
    slow = sorted((one for one in shapes if one.share_of_step >= WORTH_A_TRY_SHARE), key=lambda one: -one.share_of_step)

    def goes_with(cheap: LoopShape) -> LoopShape | None:
        return next((one for one in slow if one.phase == cheap.phase), slow[0] if slow else None)

    many = [one for one in shapes if one not in slow and one.iterations >= WORTH_A_TRY_ITERATIONS]
    return [one for one in many if goes_with(one) == shape]


def with_those_beside(
    proposals: Sequence[Proposal], sites: Sequence[LoopSite], source: Source, look: Callable[[LoopSite], Seen]
) -> tuple[Proposal, ...]:
    """Each proposal preceded by itself with the loops at ``sites`` mended too; the same alone where none can be."""
    seen = [(site, look(site)) for site in sites]
    found: list[Proposal] = []
    for proposal in proposals:
        longer = proposal
        for site, values in seen:
            longer = _with_loop(longer, site, values, source)
        found += [longer, proposal] if longer is not proposal else [proposal]
    return tuple(found)


def _with_loop(proposal: Proposal, site: LoopSite, seen: Seen, source: Source) -> Proposal:
    """The proposal with one loop more, whose place is that of ``site`` in the old text; itself if that can't be."""
    from gradwright.doctor.rewrite import propose_loop
    from gradwright.doctor.rewrite.source_text import changed_lines, split_lines, unified_diff

    old = split_lines(source.text)
    moved = _moved_by(site.line, site.end_line, old, split_lines(proposal.new_text))
    if moved is None:
        return proposal
    there = replace(site, line=site.line + moved, end_line=site.end_line + moved)
    found, _ = propose_loop(source.path, proposal.new_text, there, _shifted(seen, moved))
    if not found or any(one.unsafe for one in found):
        return proposal
    # Array code of which nothing but the trials tells that it is right might spoil what holds without it.
    more = found[0] if found[0].certificate else found[-1]
    lines = split_lines(more.new_text)
    down = _moved_by(*proposal.region, split_lines(proposal.new_text), lines) or 0
    same_method = more.function == proposal.function
    return replace(
        more,
        rewrite=proposal.rewrite,
        diff=unified_diff(source.path, old, lines),
        what=f"{proposal.what}; {more.what}",
        function=more.function if same_method else "",
        changed=changed_lines(old, lines),
        replaced=proposal.replaced,
        region=(proposal.region[0] + down, proposal.region[1] + down),
        added=proposal.added + more.added,
        certificate=proposal.certificate and more.certificate,
        unsafe=proposal.unsafe,
    )


def _moved_by(first: int, last: int, old: Sequence[str], new: Sequence[str]) -> int | None:
    """How many lines further down these lines stand in the new text; None where they were changed."""
    for same in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if same.a < first and last <= same.a + same.size:
            return same.b - same.a
    return None


def _shifted(seen: Seen, by: int) -> Seen:
    values = {(first + by, at, last + by, to): found for (first, at, last, to), found in seen.values.items()}
    return replace(seen, values=values)
