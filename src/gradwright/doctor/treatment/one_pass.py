"""What a loop became, once more as one formula: taken where that is clearly faster, at the sizes of the run."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.session.model import Candidate, Fix, Source
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.treatment.trials import Trial, Trials, Tried
from gradwright.kernels.machine import compiling

if TYPE_CHECKING:
    from gradwright.doctor.prove.timing import Timing
    from gradwright.doctor.session.proposal import Proposal

# Fewer elements fit into the cache, temporaries and all; then a formula, and its first call, are not worth a word.
MANY_ELEMENTS = 10_000
CLEARLY_FASTER = 1.25
SECONDS_OF_A_CONTEST = 8.0


def in_one_pass(tried: Tried, use: LoopUse, source: Source, trials: Trials, proof: Trial) -> Tried:
    """The fix as a formula beside the function, or as it was: what is faster, forward and backward, beside it.

    A formula that is not is kept among the candidates, with the times of both.
    """
    plain, fix = tried.proposal, tried.fix
    if plain is None or fix is None or fix.unsafe or trials.seconds_left < SECONDS_OF_A_CONTEST or not _is_large(use):
        return tried
    if compiling.available() is not None or (formula := _formula(source, plain)) is None:
        return tried
    timing = _contest(plain, formula, use, source)
    if timing is None:
        return tried
    times = f"{timing.after:.3g} s in one pass, {timing.before:.3g} s as torch's own operations ({timing.on})"
    if timing.ratio < CLEARLY_FASTER:
        return _kept(tried, Candidate(formula.rewrite, formula.diff, f"it is not clearly faster: {times}"))
    found, candidate = trials.proved(formula, proof)
    if found is None or found.unsafe:
        return _kept(tried, candidate if found is None else replace(candidate, counterexample=found.unsafe))
    told = replace(found.proof, on=(*found.proof.on, times))
    first = (*tried.candidates[:-1], replace(tried.candidates[-1], counterexample=f"one pass is faster: {times}"))
    return Tried((*first, candidate), Fix(found.diff, told), formula)


def _kept(tried: Tried, candidate: Candidate) -> Tried:
    return replace(tried, candidates=(*tried.candidates, candidate))


def _is_large(use: LoopUse) -> bool:
    import torch

    values = use.live_ins[0].values() if use.live_ins else ()
    return any(isinstance(value, torch.Tensor) and value.numel() >= MANY_ELEMENTS for value in values)


def _formula(source: Source, plain: Proposal) -> Proposal | None:
    from gradwright.doctor.probe.attempts import Limits, attempt

    def write() -> Proposal | None:
        from gradwright.doctor.rewrite import with_formula
        from gradwright.doctor.rewrite.source_text import SourceText

        return with_formula(SourceText(source.path, source.text), plain)

    return attempt(write, Limits(SECONDS_OF_A_CONTEST)).value


def _contest(plain: Proposal, formula: Proposal, use: LoopUse, source: Source) -> Timing | None:
    from gradwright.doctor.probe.attempts import Limits, attempt
    from gradwright.doctor.prove.beside import compare_candidates

    importlib.import_module("gradwright.kernels.machine.lowering")  # once, for the proof as well

    return attempt(lambda: compare_candidates(plain, formula, use, source.text), Limits(SECONDS_OF_A_CONTEST)).value
