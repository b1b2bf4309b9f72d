"""Every trial of one proof, and what the original does in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradwright.doctor.prove.compare import Difference, Manner, compare
from gradwright.doctor.prove.counting import Counting, TooManyOperationsError
from gradwright.doctor.prove.linking import Group, all_groups, minimal, shorter, splits, with_lengths
from gradwright.doctor.prove.neighbours import (
    EQUAL_ELEMENTS,
    POSITIVE,
    Neighbour,
    awkward_values,
    normal_numbers,
    nudged_values,
    other_dtypes,
    other_indices,
    other_layouts,
    other_lengths,
    other_numbers,
    same_twice,
    with_values,
)
from gradwright.doctor.prove.specimens import Args, Cut, cuts, describe, longest_axis, same_length
from gradwright.doctor.prove.trees import tensors
from gradwright.doctor.prove.trial import CotangentKind, Outcome, Subject, Trial, masks, real, run
from gradwright.ground import clock
from gradwright.ground.clock import Stopwatch

Specimen = tuple[tuple[Any, ...], frozenset[str]]

COTANGENTS: tuple[CotangentKind, ...] = ("expanded", "transposed", "0, inf and NaN")
MOST_SPLITS = 6
UNCUT_ELEMENTS = 4096  # inputs up to this size are tried as they are, where the original refuses smaller ones
OPERATIONS_PER_TRIAL = 1_000  # more, and the inputs are cut further
SECONDS_PER_TRIAL = 0.05  # the same, of what is not torch's: loops in Python, NumPy
SURELY_FEW = 0.001  # in so few seconds nobody dispatches a thousand operations
SHORTEST = 4
APART = "sizes differ that were equal in the run"
LEAF = "leaf Variable that requires grad"


class OutOfTimeError(Exception):
    """The deadline passed before the proof was whole."""


@dataclass
class Known:
    """What the original did in one trial; ``reference`` is the same in float64, once it was asked for.

    ``mine``: what the candidate did, ``wide``: in float64; ``excused``: it is another there, at special inputs."""

    trial: Trial
    original: Outcome
    reference: Outcome | None = None
    kills: int = 0
    mine: Outcome | None = None
    wide: Outcome | None = None
    excused: bool = False


@dataclass
class Learner:
    """The original on every trial in which it does not raise.

    ``names``: of the arguments, of specimen ``args``. ``grad``: whether it ran while a graph was recorded;
    ``fits``: whether sizes agree with what the text shows of them; ``scales``: the numbers in its indices (a window, a
    stride); ``written_backward``: its backward is the user's own code, which may be handed a gradient that is inf or
    NaN (what autograd makes of one is torch's own business).
    """

    original: Subject
    names: Callable[[Args], Sequence[str]]
    deadline: float
    manner: Manner = field(default_factory=Manner)
    grad: bool = True
    scales: frozenset[int] = frozenset()
    written_backward: bool = False
    fits: Callable[[Args], bool] = lambda args: True
    inner: bool = False
    candidate: Subject = dict
    known: list[Known] = field(default_factory=list)
    small: list[Specimen] = field(default_factory=list)
    neighbourhoods: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    def learn(self, specimens: Sequence[Specimen], candidate: Subject) -> str:
        """Run the original. What the candidate refuses helps to tell which sizes go together.

        Returns why nothing can be said, "" if something can. Raises: OutOfTimeError.
        """
        self.candidate = candidate
        for position, (args, wanted) in enumerate(specimens):
            wanted = wanted & real(self.names(args), args) if self.grad else frozenset()
            found = self._usual(args, wanted)
            if isinstance(found, str):
                return f"the original raises on specimen {position}, {found}"
            usual, small = found
            self.small.append((small, wanted))
            for trial in self._trials(args, usual, wanted):
                self.learn_one(trial)
        return "" if self.known else "there is no specimen to try it on"

    def learn_one(self, trial: Trial) -> Outcome:
        trial = replace(trial, inner=trial.inner or self.inner)
        if not self.fits(trial.args):
            return Outcome(raised="the text shows other sizes")
        original = self._run(self.original, trial)
        if LEAF in original.raised and trial.wanted and not trial.inner:
            # Nor is anything else of this proof a leaf: a loop that makes no round would not say so.
            self.inner, trial = True, replace(trial, inner=True)
            original = self._run(self.original, trial)
        if original.raised:
            return original
        self.known.append(Known(trial, original))
        return original

    def compare(self, known: Known, candidate: Outcome) -> Difference:
        """An outcome against what is known.

        If it is not the original's but for rounding, float64 says what is right, and how far the original is from it.
        Numbers that cancel (sums of whole numbers, divided by what is left) may differ by what a last bit changes.
        """
        found = compare(known.original, known.original, candidate, known.trial, self.manner)
        if not found.told:
            return found
        if known.reference is None:
            known.reference = self._wide(known.trial, known)
        found = compare(known.original, known.reference, candidate, known.trial, self.manner)
        if not found.told or known.trial.special != EQUAL_ELEMENTS:
            return found
        nudged = self._wide(replace(known.trial, args=nudged_values(known.trial.args)), known)
        return compare(known.original, nudged, candidate, known.trial, self.manner)

    def _wide(self, trial: Trial, known: Known) -> Outcome:
        """The original in float64, or what is known of it where it raises there."""
        outcome = self._run(self.original, trial, known, double=True)
        return known.original if outcome.raised else outcome

    def _run(self, subject: Subject, trial: Trial, known: Known | None = None, *, double: bool = False) -> Outcome:
        if clock.now() > self.deadline:
            raise OutOfTimeError
        cotangents = known.original.cotangents if known else None
        return run(subject, trial, self.names(trial.args), double=double, cotangents=cotangents, grad=self.grad)

    # --- the trials --------------------------------------------------------------------------------------------------

    def _usual(self, args: Args, wanted: frozenset[str]) -> tuple[Cut, Args] | str:
        """The specimen cut to a size at which the original runs, and that quickly; a string: why there is none."""
        first = ""
        longest = longest_axis(args)
        best: tuple[Cut, Trial] | None = None
        while True:
            found, raised = self._cut(args, wanted, longest)
            first = first or raised
            best = found or best
            if found is None or longest <= SHORTEST or self._is_short(found[1]):
                break
            longest = max(SHORTEST, longest * 2 // 3)
        if best is None and sum(tensor.numel() for tensor in tensors(args)) <= UNCUT_ELEMENTS:
            whole = Cut(same_length, ())
            outcome = self.learn_one(Trial(whole(args), wanted, strict=True))
            if not outcome.raised:
                return whole, whole(args)
            first = first or f"{describe(args)}: {outcome.raised}"
        if best is None:
            return f"cut to {first}"
        usual, trial = best
        self.learn_one(Trial(trial.args, wanted, strict=True))
        return usual, trial.args

    def _is_short(self, trial: Trial) -> bool:
        """Whether the original can be run hundreds of times, by its operations, which are as many each time."""
        watch = Stopwatch()
        self._run(self.original, trial)
        seconds = watch.seconds()
        if SURELY_FEW < seconds < SECONDS_PER_TRIAL:
            with Counting(OPERATIONS_PER_TRIAL):
                return not self._run(self.original, trial).raised.startswith(TooManyOperationsError.__name__)
        return seconds < SECONDS_PER_TRIAL

    def _cut(self, args: Args, wanted: frozenset[str], longest: int) -> tuple[tuple[Cut, Trial] | None, str]:
        raised = ""
        for usual in cuts(args, longest):
            small = usual(args)
            if not self.fits(small):
                continue
            for inner in (False, True):
                trial = Trial(small, wanted, inner=inner)
                outcome = self._run(self.original, trial)
                if not outcome.raised:
                    return (usual, trial), raised
                raised = raised or f"{describe(small)}: {outcome.raised}"
                if LEAF not in outcome.raised:
                    break
        return None, raised

    def _trials(self, args: Args, usual: Cut, wanted: frozenset[str]) -> Iterator[Trial]:
        groups = self._groups(args, usual, wanted)
        base = self._spread(args, usual, wanted, groups)
        signature = (describe(base), wanted)
        if signature in self.neighbourhoods:
            return
        self.neighbourhoods.add(signature)
        names = self.names(base)
        normal = with_values(base, normal_numbers)

        def trial(neighbour: Neighbour) -> Trial:
            return Trial(neighbour.args, wanted, neighbour.label, special=neighbour.special, loud=neighbour.loud)

        for neighbour in awkward_values(base, names):
            yield trial(neighbour)
        written = {name for known in self.known for name in known.original.changed}
        layouts = other_layouts(normal, names, written)
        for neighbour in (*layouts, *other_indices(normal), *other_numbers(normal, names)):
            yield trial(neighbour)
        for kind in COTANGENTS if self.written_backward else COTANGENTS[:2]:
            special = "the gradient that arrives is inf or NaN" if "inf" in kind else ""
            yield Trial(normal, wanted, cotangent=kind, special=special)
        for mask in masks(names, normal, wanted) if self.grad else ():
            yield Trial(normal, mask, "gradients of " + ", ".join(sorted(mask)), strict=True)
        sizes = other_lengths(args, usual, all_groups(args, usual, groups), self.scales)
        for neighbour in (*sizes, *other_dtypes(normal), *same_twice(normal, names)):
            yield trial(neighbour)
        for values in () if self.manner.outputs_only else (normal, with_values(base, POSITIVE)):
            yield Trial(values, wanted, twice=True)

    def _groups(self, args: Args, usual: Cut, wanted: frozenset[str]) -> list[Group]:
        """Axes that go together, among those of equal length; what was tried of it is learnt.

        A change may refuse lengths that the run did not have.
        """
        refused: list[Trial] = []
        found: list[Group] = []
        for group in splits(args, usual) if usual.new else ():
            if any(one.axes <= group.axes for one in found):
                continue
            small = with_lengths(usual, [(group, shorter(usual, group))])(args)
            trial = Trial(with_values(small, normal_numbers), wanted)
            if self.learn_one(trial).raised:
                continue
            known = self.known.pop()
            outcome = self._run(self.candidate, known.trial, known)
            if outcome.raised:
                refused.append(known.trial)
                continue
            found.append(group)
            if len(found) <= MOST_SPLITS or self.compare(known, outcome).told:
                self.known.append(known)
        if refused:
            self.learn_one(replace(refused[0], loud=APART))
        return minimal(found)

    def _spread(self, args: Args, usual: Cut, wanted: frozenset[str], groups: Sequence[Group]) -> Args:
        """Inputs whose axes differ in length as much as the original and the change take."""
        changes = [(group, shorter(usual, group, turn + 1)) for turn, group in enumerate(groups)]
        for chosen in (changes, changes[:1]):
            base = with_lengths(usual, chosen)(args)
            for inner in (False, True):
                trial = Trial(with_values(base, normal_numbers), wanted, inner=inner)
                if not self._run(self.original, trial).raised and not self._run(self.candidate, trial).raised:
                    return base
        return usual(args)
