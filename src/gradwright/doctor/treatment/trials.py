"""Candidates are proved, one after the other, each in a forked child and within its time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwright.doctor.session.model import Candidate, Fix
from gradwright.ground import clock

if TYPE_CHECKING:
    from gradwright.doctor.prove import Proved
    from gradwright.doctor.session.proposal import Proposal

Trial = Callable[["Proposal", float], "Proved | str"]  # with the deadline, of clock.now()

SECONDS_OF_A_PROOF = 15.0


@dataclass(frozen=True)
class Tried:
    """What became of a finding: its candidates in the order they were tried, the fix, and the proposal that it was."""

    candidates: tuple[Candidate, ...] = ()
    fix: Fix | None = None
    proposal: Proposal | None = None


def declined(why: str, rewrite: str = "compile_loop") -> Tried:
    """No candidate could be written, of a loop say, and why."""
    return Tried((Candidate(rewrite, "", why),))


class Trials:
    """All proofs of one treatment. ``until``: of ``clock.now()``, after which nothing more is tried."""

    def __init__(self, until: float) -> None:
        self.until = until

    @property
    def seconds_left(self) -> float:
        return self.until - clock.now()

    def first_that_holds(self, proposals: Iterable[Proposal], proof: Trial) -> Tried:
        candidates: list[Candidate] = []
        for proposal in proposals:
            fix, candidate = self.proved(proposal, proof)
            candidates.append(candidate)
            if fix is not None:
                return Tried(tuple(candidates), fix)
        return Tried(tuple(candidates))

    def best_that_holds(self, proposals: Sequence[Proposal], proof: Trial) -> Tried:
        """The fastest of those that hold, safe ones first; a rewrite's next form only where its first is unsafe, and a
        kernel only where no safe array code does without a loop."""
        from gradwright.doctor.rewrite import keeps_a_loop

        candidates: list[Candidate] = []
        fixes: list[tuple[Fix, Proposal]] = []
        settled: set[str] = set()
        for proposal in proposals:
            if proposal.rewrite in settled:
                continue
            fix, candidate = self.proved(proposal, proof)
            candidates.append(candidate)
            if fix is not None:
                fixes.append((fix, proposal))
                settled |= set() if fix.unsafe else {proposal.rewrite}
                settled |= set() if fix.unsafe or keeps_a_loop(proposal) else {"compile_kernel"}
        fixes.sort(key=lambda one: (bool(one[0].unsafe), one[0].proof.after_seconds or 0.0))
        return Tried(tuple(candidates), *fixes[0]) if fixes else Tried(tuple(candidates))

    def proved(self, proposal: Proposal, proof: Trial) -> tuple[Fix | None, Candidate]:
        from gradwright.doctor.probe.attempts import Limits, attempt

        # Imported here, once: every forked child would do it anew.
        importlib.import_module("gradwright.doctor.prove.exact")
        if by_numba := "numba" in proposal.added:
            importlib.import_module("numba")
        if calls_kernels := "elementwise(" in proposal.added or proposal.rewrite == "call_known_loss":
            importlib.import_module("gradwright.kernels.machine.lowering")
        left = self.seconds_left
        if left < 1.0:
            why = "it was not tried: the time for proofs was used up"
            return None, Candidate(proposal.rewrite, proposal.diff, why)
        # A kernel is compiled anew for each dtype and layout that it is tried on.
        seconds = min(left, 2 * SECONDS_OF_A_PROOF if by_numba or calls_kernels else SECONDS_OF_A_PROOF)
        done = attempt(lambda: proof(proposal, clock.now() + seconds), Limits(seconds + 2.0))
        verdict = done.value if done.how == "returned" else f"its trial ended early: {done.why}"
        if verdict is None or isinstance(verdict, str):
            return None, Candidate(proposal.rewrite, proposal.diff, verdict)
        return Fix(proposal.diff, verdict.proof, verdict.unsafe), Candidate(proposal.rewrite, proposal.diff)
