"""Two candidates for the same statements, on the clock beside each other."""

from __future__ import annotations

from gradwright.doctor.prove.clock import Seconds, Setting, measure, once, pick_fastest
from gradwright.doctor.prove.compiled import NotCompilableError, room_of
from gradwright.doctor.prove.regions import find_region, inputs, make_region, outputs, without_graph
from gradwright.doctor.prove.specimens import Args, describe
from gradwright.doctor.prove.timing import Timing
from gradwright.doctor.prove.trees import CannotCopyError
from gradwright.doctor.prove.trial import Subject, real, wanted_of
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.entered import LoopUse
from gradwright.ground import clock

FEWEST_ROUNDS = 7
MOST_SECONDS = 1.5


def compare_candidates(one: Proposal, other: Proposal, use: LoopUse, text: str) -> Timing | None:
    """Seconds of both, forward and backward, on what the statements were entered with, whole. None if one raises.

    ``text``: the old text. What is compiled at a first call is not counted.
    """
    try:
        old = find_region(text, one.replaced)
        given = inputs(old, use.live_ins[0], use.globals)
        entered = inputs(old.with_prologue(given), use.live_ins[0], use.globals)
        names, args, leaves = list(entered), tuple(entered.values()), outputs(old)
        regions = [find_region(mine.new_text, mine.region).with_prologue(given, names) for mine in (one, other)]
        first, second = (
            make_region(region, names, leaves, mine.path, room_of(mine, use.globals))
            for region, mine in zip(regions, (one, other), strict=True)
        )
        wanted = wanted_of(names, args) & real(names, args)
        setting = Setting(first, second, lambda _: names, wanted, grad=not without_graph(old))
        if any(once(setting, subject, args) is None for subject in (first, second)):
            return None
        rounds = _rounds(setting, first, second, args)
    except (CannotCopyError, NotCompilableError):
        return None
    if not rounds:
        return None
    before, after = (pick_fastest(mine).all for mine in zip(*rounds, strict=True))
    return Timing(before, after, describe(args))


def _rounds(setting: Setting, first: Subject, second: Subject, args: Args) -> list[tuple[Seconds, Seconds]]:
    """Some, however long the first one takes, if that is not too long; none if a subject raises."""
    rounds: list[tuple[Seconds, Seconds]] = []
    start = clock.now()
    while len(rounds) < FEWEST_ROUNDS and (not rounds or clock.now() - start < MOST_SECONDS):
        found = measure(setting, (first, second), args)
        if found is None:
            return []
        rounds += zip(*found, strict=True)
    return rounds
