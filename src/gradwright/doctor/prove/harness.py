"""A candidate and its mutants on every trial of a proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gradwright.doctor.prove.compare import Difference, Manner, alike, compare, equal
from gradwright.doctor.prove.learning import Known, Learner
from gradwright.doctor.prove.neighbours import EQUAL_ELEMENTS, EXPANDED, single_values
from gradwright.doctor.prove.specimens import tensors
from gradwright.doctor.prove.trees import rebuilt
from gradwright.doctor.prove.trial import Outcome, Subject, Trial

ROUNDING = Manner(slack=1e5)  # times that of float64: 1e-9 of the largest number


@dataclass(frozen=True)
class Verdict:
    """``first``: the first ordinary trial in which a candidate does something else, and the difference there;

    ``worst``: the largest difference where it does the same; ``special``: what differs at special inputs only.
    """

    worst: Difference
    first: tuple[Trial, Difference] | None = None
    special: tuple[tuple[Trial, Difference], ...] = ()


class MutantRuns:
    """A mutant on the trials of a proof: each runs once, whatever is asked about it."""

    def __init__(self, run: Callable[[Known, bool], Outcome]) -> None:
        self._run = run
        self._outcomes: dict[tuple[int, bool], Outcome] = {}

    def outcome(self, known: Known, *, double: bool = False) -> Outcome:
        place = (id(known), double)
        if place not in self._outcomes:
            self._outcomes[place] = self._run(known, double)
        return self._outcomes[place]


@dataclass
class Harness(Learner):
    """What is learnt of the original, put to use."""

    def judge(self, candidate: Subject) -> Verdict:
        """A candidate on every trial. Those in which it differs at special inputs are left out of what follows."""
        worst, special = Difference(), []
        for known in self.known:
            known.mine = self._run(candidate, known.trial, known)
            found = self.compare(known, known.mine)
            if self.manner.outputs_too and _refuses_nothing(known):
                known.trial = replace(known.trial, loud=known.trial.label)
            refused = known.trial.loud and known.mine.raised
            if found.told and not known.trial.special and not refused and not self._by_equal_elements(known):
                return Verdict(worst, (known.trial, found))
            if found.told:
                known.excused = True
                special.append((_refused(known), found))
            elif found.error > worst.error and not known.trial.special:
                worst = found
        return Verdict(worst, None, tuple(special))

    def _by_equal_elements(self, known: Known) -> bool:
        """Whether an expanded tensor makes a difference by its values, which are equal, and not by its layout."""
        if known.trial.label != EXPANDED:
            return False
        dense = rebuilt(known.trial.args, lambda _, tensor: tensor.contiguous())
        known.trial = replace(known.trial, args=dense, special=EQUAL_ELEMENTS)
        known.original, known.reference = self._run(self.original, known.trial, known), None
        return bool(self.compare(known, self._run(self.candidate, known.trial, known)).told)

    def runs_of(self, mutant: Subject) -> MutantRuns:
        return MutantRuns(lambda known, double: self._run(mutant, known.trial, known, double=double))

    def rejects(self, runs: MutantRuns) -> bool:
        """Whether a trial tells a mutant of the candidate from the original, where the candidate is the same."""
        for known in sorted(self.known, key=lambda one: -one.kills):
            if known.excused:
                continue
            outcome = runs.outcome(known)
            spoilt = self.manner.where_finite and _spoils(known.mine, outcome)
            if spoilt or self.compare(known, outcome).told:
                known.kills += 1
                return True
        return False

    def rejects_in_float64(self, runs: MutantRuns) -> bool:
        """Whether an ordinary trial tells it there, where a small number (``union + 1e-6``) is not lost in rounding."""
        return any(self._tells_in_float64(runs, known) for known in self.known)

    def _tells_in_float64(self, runs: MutantRuns, known: Known) -> bool:
        if known.excused or known.trial.special or known.trial.loud:
            return False
        original = self._run(self.original, known.trial, known, double=True)
        if original.raised:
            return False
        wide = self._mine_in_float64(known)
        manner = replace(self.manner, slack=ROUNDING.slack)
        if compare(original, original, wide, known.trial, manner).told:
            return False
        other = runs.outcome(known, double=True)
        if other.raised or alike(known.original, wide, other):
            return False
        return bool(compare(original, original, other, known.trial, manner).told)

    def equivalent(self, runs: MutantRuns) -> bool:
        """Whether a mutant is the candidate in other words, where the candidate is the same as the original.

        Bit by bit in every trial; or else, in float64, but for the rounding of another order of the same operations.
        """
        for known in self.known:
            assert known.mine is not None
            if known.excused or equal(known.original, known.mine, runs.outcome(known)):
                continue
            wide, other = self._mine_in_float64(known), runs.outcome(known, double=True)
            trial = replace(known.trial, strict=True)
            told = wide.raised or compare(wide, wide, other, trial, ROUNDING).told
            if told and not alike(known.original, wide, other):
                return False
        return True

    def _mine_in_float64(self, known: Known) -> Outcome:
        if known.wide is None:
            known.wide = self._run(self.candidate, known.trial, known, double=True)
        return known.wide

    def blind(self) -> bool:
        """Whether the original has no finite gradient in any trial: then it is no measure of one."""
        gradients = [one for known in self.known for one in known.original.gradients.values() if one is not None]
        return bool(gradients) and not any(bool(one.isfinite().any()) for one in gradients if one.numel())

    def culprit(self, candidate: Subject, trial: Trial, found: Difference) -> tuple[str, Difference]:
        """What is special about the inputs of a trial, of one tensor if that alone makes the difference."""
        for neighbour in single_values(trial.args, self.names(trial.args), trial.label):
            alone = Trial(neighbour.args, trial.wanted, special=neighbour.special, inner=trial.inner)
            original = self._run(self.original, alone)
            if original.raised:
                continue
            known = Known(alone, original)
            difference = self.compare(known, self._run(candidate, alone, known))
            if difference.told:
                return neighbour.special, difference
        return trial.special, found

    def tried(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(known.trial) for known in self.known if not known.excused))


def _refused(known: Known) -> Trial:
    """The trial; as one of what is refused, where the candidate says a word of ours in the place of a NaN."""
    words = known.mine is not None and known.mine.raised.startswith("UsageError")
    silent = any(bool(value.isnan().any()) for value in tensors([*known.original.outputs.values()]))
    if not (words and silent):
        return known.trial
    return replace(known.trial, loud=known.trial.special or known.trial.loud, special="")


def _refuses_nothing(known: Known) -> bool:
    """Whether the candidate says a word of ours of tensors without elements."""
    words = known.mine is not None and known.mine.raised.startswith("UsageError")
    return words and any(not tensor.numel() for tensor in tensors(known.trial.args))


def _spoils(mine: Outcome | None, mutated: Outcome) -> bool:
    """Whether a gradient that the candidate makes finite is not finite in a mutant."""
    pairs = [(value, mutated.gradients.get(name)) for name, value in mine.gradients.items()] if mine else []
    return any(
        one is not None and other is not None and one.isfinite().all() and not other.isfinite().all()
        for one, other in pairs
    )
