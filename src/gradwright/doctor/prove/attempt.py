"""One proposal against its original, whatever they are: a class, a function, a region. The ladder, rung by rung."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gradwright.checking.chance import chance_held
from gradwright.doctor.prove.clock import Setting
from gradwright.doctor.prove.compare import Difference
from gradwright.doctor.prove.compiled import NotCompilableError
from gradwright.doctor.prove.harness import Harness, MutantRuns, Verdict
from gradwright.doctor.prove.learning import OutOfTimeError, Specimen
from gradwright.doctor.prove.mutants import LIMIT, mutants
from gradwright.doctor.prove.specimens import Args, cuts, describe, not_square, tensors
from gradwright.doctor.prove.timing import FASTER, Timing, compare_speed
from gradwright.doctor.prove.trees import CannotCopyError
from gradwright.doctor.prove.trial import Subject, Trial, real, run
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Proposal
from gradwright.ground import clock

FEWEST_MUTANTS = 5
MOST_ALIKE = 12
EXACT_LENGTHS = (3, 4)
EXACT_SECONDS = 2.5
STILLBORN = ("NameError", "AttributeError", "TypeError", "SyntaxError")
NOT_MUCH_SLOWER = 0.8
ONE_TENSOR = "are one tensor"


@dataclass(frozen=True)
class Proved:
    """A proposal that held. ``unsafe``: where it does something else, in one sentence; "" if nowhere that was tried."""

    proof: Proof
    unsafe: str = ""


@dataclass
class Attempt:
    """``make`` compiles the candidate or a mutant of it; ``definition`` is its code, ``skipped`` names of no tensors.

    ``phase``: what is timed ("" for forward and backward). ``expect``: "same" (then it must be faster or smaller),
    "kept" (the same, and not much slower), "right" or "finite". ``also``: what else must hold of a candidate, "" or the
    reason; ``also_rejects``: whether that rejects a mutant; ``also_fine``: whether one that nothing rejects is no
    fault.
    ``prepared``: as in :class:`Setting`; ``whole``: the specimen that is timed, in words;
    ``unmeasured``: the original's gradients are finite nowhere, so that ``also`` has to judge them.
    """

    harness: Harness
    proposal: Proposal
    definition: Any
    make: Callable[[Any], Subject]
    skipped: Collection[str] = ()
    phase: str = ""
    expect: str = "same"
    limit: int = LIMIT
    prepared: Subject | None = None
    whole: str = ""
    unmeasured: bool = False
    also: Callable[[Any], str] = lambda definition: ""
    also_rejects: Callable[[Any], bool] = lambda definition: False
    also_fine: Callable[[Any], bool] = lambda definition: False

    def run(self, specimens: Sequence[Specimen], seconds: float | None) -> Proved | str:
        """Raises: what :func:`tried` tells."""
        candidate = self.make(self.definition)
        if reason := self.harness.learn(specimens, candidate):
            return reason
        verdict = self.harness.judge(candidate)
        if verdict.first:
            trial, difference = verdict.first
            return f"{trial}: {difference.told}"
        if self.expect in ("finite", "sound") and (reason := self._mends_nothing()):
            return reason
        self.unmeasured = self.expect in ("finite", "sound") and self.harness.blind()
        if (self.expect not in ("finite", "sound") or self.unmeasured) and (reason := self.also(self.definition)):
            return reason
        counted = self._reject_mutants()
        if isinstance(counted, str):
            return counted
        args, wanted = max(specimens, key=lambda one: sum(tensor.numel() for tensor in tensors(one[0])))
        self.whole = describe(args)
        timing = self._timing(candidate, args, wanted, seconds)
        if self.expect == "same" and (timing is None or timing.no_gain()):
            return timing.no_gain() if timing else "it could not be timed"
        if self.expect == "kept" and timing and timing.ratio < NOT_MUCH_SLOWER:
            return timing.no_gain()
        shapes = self._exact(candidate) if self.expect in ("same", "kept") and not verdict.special else ()
        if isinstance(shapes, str):
            return shapes
        return Proved(self._proof(verdict, counted, timing, shapes), self._unsafe(candidate, verdict))

    def _proof(
        self, verdict: Verdict, counted: tuple[int, int], timing: Timing | None, shapes: tuple[str, ...]
    ) -> Proof:
        # A certificate speaks of all inputs: not of a change that is another at some of them.
        certificate = self.proposal.certificate if shapes and not verdict.special else ""
        notes = [_note(trial) for trial, _ in verdict.special if _note(trial)]
        if timing and timing.on != self.whole:
            notes.append(f"timed on {timing.on}")
        # Bytes at another size than the seconds would be read as bytes at that size.
        counted_there = timing is not None and timing.bytes_on == timing.on
        counted_there = counted_there and timing is not None and timing.before_bytes != timing.after_bytes
        before, after = (timing.before_counted, timing.after_counted) if timing else (None, None)
        return Proof(
            verdict="proved" if certificate else "verified",
            on=(*self.harness.tried(), *dict.fromkeys(notes)),
            worst_error=verdict.worst.error,
            tolerance=verdict.worst.tolerance,
            mutants_rejected=counted[0],
            before_seconds=timing.before if timing else None,
            after_seconds=timing.after if timing else None,
            mutants_tried=counted[1],
            exact=shapes,
            certificate=certificate,
            before_bytes=timing.before_bytes if timing and counted_there else None,
            after_bytes=timing.after_bytes if timing and counted_there else None,
            before_operations=before.operations if before else None,
            after_operations=after.operations if after else None,
            before_moved_bytes=before.moved_bytes if before else None,
            after_moved_bytes=after.moved_bytes if after else None,
        )

    # --- rungs -------------------------------------------------------------------------------------------------------

    def _unsafe(self, candidate: Subject, verdict: Verdict) -> str:
        """Where it does something else, in one sentence."""
        told: dict[str, str] = {}
        for trial, difference in verdict.special:
            if _note(trial):
                continue
            where, found = self.harness.culprit(candidate, trial, difference)
            told.setdefault(where, _sentence(found))
        if not told:
            return self.proposal.unsafe
        named = {where: what for where, what in told.items() if not where.startswith("an input")}
        (where, what), *others = (named or told).items()
        likewise = f"; likewise where {' or '.join(one for one, _ in others)}" if others else ""
        return f"where {where}: {what}{likewise}"

    def _mends_nothing(self) -> str:
        """Of a change that makes gradients finite: that it makes one, and leaves none that it could make."""
        mended = False
        for known in self.harness.known:
            assert known.mine is not None
            clean = all(value.isfinite().all() for value in known.original.outputs.values() if tensors([value]))
            if self.expect == "sound" and not clean and not known.trial.special:
                mended = mended or all(one.isfinite().all() for one in known.mine.outputs.values() if tensors([one]))
            for name, before in known.original.gradients.items():
                after = known.mine.gradients.get(name)
                if before is None or after is None or before.isfinite().all() or not clean or known.trial.special:
                    continue
                if after.isnan().any():
                    return f"{known.trial}: the gradient of {name} is still NaN"
                mended = mended or bool((after.isfinite() & ~before.isfinite()).any())
        return "" if mended else "it mends nothing: nothing that was NaN or infinite is finite now"

    def _reject_mutants(self) -> tuple[int, int] | str:
        """How many mutants the trials reject, of how many. A string: why that is not enough."""
        tried = alike = 0
        asked = [self._trials_reject, self._judge_rejects]
        for mutant in mutants(self.definition, self.proposal.changed, self.limit, self.skipped):
            try:
                runs = self.harness.runs_of(self.make(mutant.definition))
            except NotCompilableError:
                continue
            if runs.outcome(self.harness.known[0]).raised.startswith(STILLBORN):
                continue  # no program at all: what rejects it shows nothing
            rejecting = next((one for one in asked if one(mutant.definition, runs)), None)
            if rejecting is not None:
                asked.sort(key=lambda one: one != rejecting)  # it is asked first about the next mutant, too
            elif self.harness.equivalent(runs) or self.also_fine(mutant.definition):
                alike += 1
                if alike == MOST_ALIKE and not tried:
                    break  # no trial reaches what changed
                continue
            elif not self.harness.rejects_in_float64(runs):
                return f"the trials can't tell it from a faulty twin ({mutant.what})"
            tried += 1
        if tried < FEWEST_MUTANTS:
            return f"the trials reject {tried} of {tried} faulty twins: too few to rely on them"
        return tried, tried

    def _trials_reject(self, definition: Any, runs: MutantRuns) -> bool:
        return self.harness.rejects(runs)

    def _judge_rejects(self, definition: Any, runs: MutantRuns) -> bool:
        return (self.expect != "finite" or self.unmeasured) and self.also_rejects(definition)

    def _timing(self, candidate: Subject, args: Args, wanted: frozenset[str], seconds: float | None) -> Timing | None:
        mine = self.harness
        names = mine.names
        wanted &= real(names(args), args)
        counted = "elementwise(" not in self.proposal.added
        setting = Setting(mine.original, candidate, names, wanted, self.phase, mine.grad, self.prepared, counted)
        needed = {"same": FASTER, "kept": NOT_MUCH_SLOWER}.get(self.expect, 0.0)
        return compare_speed(setting, args, seconds=seconds, deadline=mine.deadline, needed=needed)

    def _exact(self, candidate: Subject) -> tuple[str, ...] | str:
        """The shapes at which outputs and vjps are equal as real formulas. A string: they are not."""
        from gradwright.doctor.prove.exact import same_formulas

        points = list(self._points)
        left = self.harness.deadline - clock.now()
        if not points or left < 1.0:
            return ()
        found = same_formulas(
            self.harness.original,
            candidate,
            [args for args, _ in points],
            [wanted for _, wanted in points],
            seconds=min(EXACT_SECONDS, left / 2),
        )
        if found.verdict == "different":
            return found.told
        return found.shapes if found.verdict == "equal" else ()

    @functools.cached_property
    def _points(self) -> list[tuple[Args, tuple[bool, ...]]]:
        """Very small inputs on which the original runs, with a bool per argument: whether its gradient is wanted."""
        points = []
        harness = self.harness
        for args, wanted in harness.small[:1]:
            for longest in EXACT_LENGTHS:
                for usual in itertools.chain(not_square(args, longest), cuts(args, longest)):
                    small = usual(args)
                    if (
                        harness.fits(small)
                        and not run(
                            harness.original, Trial(small, frozenset()), harness.names(small), grad=False
                        ).raised
                    ):
                        points.append((small, tuple(name in wanted for name in harness.names(small))))
                        break
        return list({describe(args): (args, wanted) for args, wanted in points}.values())


def tried(attempt: Callable[[], Proved | str]) -> Proved | str:
    """What an attempt comes to; why there was none, in one sentence, where it could not be made."""
    try:
        with chance_held():
            return attempt()
    except OutOfTimeError:
        return "no time was left to try it on everything"
    except (NotCompilableError, CannotCopyError) as error:
        return str(error)


def _note(trial: Trial) -> str:
    """What the run did not show and the proof does not claim: one memory, or other sizes, which the change refuses."""
    if trial.special.endswith(ONE_TENSOR):
        return f"while {trial.special.replace(ONE_TENSOR, 'are two tensors')}"
    return f"refused where {trial.loud}" if trial.loud and not trial.special else ""


def _sentence(found: Difference) -> str:
    if not found.before:
        return f"the change {found.after}" if found.after else found.told
    return f"{found.what} is {found.before} in the original, {found.after} in the change"
