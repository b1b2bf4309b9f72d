"""Where NaN or inf begins, the operation is written so that it does not: candidates, the likeliest first.

The values stay what they were wherever they were finite. Where no such text is known, or the repair is the user's to
choose, the reason is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.finite import compositions, edges, halves, logarithms, masks, quotients
from gradwright.doctor.rewrite.finite.place import REWRITE, Change, Place
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, NonfiniteBegins
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.leaves import UnfitError

__all__ = ["REWRITE", "keep_finite"]

MOST = 5
_Ways = Sequence[Callable[[Place], Iterator[Change]]]
_WAYS: dict[str, _Ways] = {
    "where-nan": (compositions.stable_forms, edges.guarded_branch, edges.at_the_edge),
    "boundary": (compositions.stable_forms, edges.guarded_branch, edges.at_the_edge, logarithms.of_zero),
    "exp-overflow": (compositions.stable_forms, edges.guarded_branch),
    "inf-over-inf": (compositions.stable_forms,),
    "division-by-zero": (compositions.stable_forms, edges.guarded_branch),
    "zero-count": (edges.guarded_branch, quotients.counted),
    "normalize-at-zero": (edges.guarded_branch, quotients.normalised),
    "zero-spread": (edges.guarded_branch, quotients.normalised),
    "masked-row": (masks.masked_rows,),
    "zero-times-inf": (masks.zero_products,),
    "half-overflow": (halves.in_float32,),
}
_YOURS: dict[str, str] = {
    "explosion": "what keeps its values from growing (learning rate, clipping, a fault before it) is yours to choose",
    "overflow": "by how much to scale it down is yours to choose",
    "exp-overflow": "how far the operand of the exponential may grow is yours to choose",
    "division-by-zero": "what a quotient is to be where its divisor is 0 is yours to choose",
    "zero-count": "what the mean or the deviation of so few values is to be is yours to choose",
    "boundary": "what its value is to be there is yours to choose",
    "update": "the learning rate, clipping and eps of the optimizer are yours to choose",
    "given": "it came in with the data or the parameters, not out of this line",
    "constant": "the number is written there",
    "uninitialised": "what the memory is to hold is yours to choose",
    "half-overflow": "a gradient scaler, or a wider format further up, is yours to choose",
}


def keep_finite(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """At most ``MOST`` candidates. Raises: DeclinedError with the reason why there is none."""
    fact = next((one for one in facts if isinstance(one, NonfiniteBegins)), None)
    if fact is None or fact.location is None:
        raise DeclinedError("it begins in no line of the user's")
    if fact.phase == "inside backward":
        raise DeclinedError("it begins in a backward's own code, whose gradient would change with it")
    ways = _WAYS.get(fact.cause, ())
    reason = _YOURS.get(fact.cause, "no form of this operation is known that stays finite")
    if not ways or fact.phase not in ("forward", "backward"):
        raise DeclinedError(reason)
    place = Place(Splice(source), fact.location, fact)
    found: list[Proposal] = []
    changes = itertools.chain.from_iterable(_tried(way, place) for way in ways)
    for change in itertools.islice(changes, 2 * MOST):
        try:
            proposal = place.proposal(change)
        except (DeclinedError, UnfitError, SyntaxError):
            continue
        if all(proposal.new_text != one.new_text for one in found):
            found.append(proposal)
    if not found:
        raise DeclinedError(reason)
    return tuple(found[:MOST])


def _tried(way: Callable[[Place], Iterator[Change]], place: Place) -> Iterator[Change]:
    """One that can't be written ends its own way alone."""
    try:
        yield from way(place)
    except DeclinedError:
        return
