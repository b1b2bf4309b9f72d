"""Where NaN or inf begins: what keeps it finite, tried in runs of the whole script."""

from __future__ import annotations

from gradwright.doctor.session.model import Candidate, Fix
from gradwright.doctor.treatment.cases import Case
from gradwright.doctor.treatment.patients import Patients
from gradwright.doctor.treatment.trials import Trials, Tried, declined


def keep_finite(case: Case, patients: Patients, trials: Trials) -> Tried:
    """The first change that holds; what spoke against those before it; the reason, where there is none to try."""
    from gradwright.doctor.rewrite import propose_finite

    if patients.in_script is None:
        return Tried()
    proposals, why = propose_finite(case.finding, case.evidence, case.source.text)
    if not proposals:
        return declined(why, case.rewrite)
    candidates: list[Candidate] = []
    for proposal in proposals:
        verdict = patients.in_script(proposal, trials.seconds_left)
        if not isinstance(verdict, str):
            candidates.append(Candidate(proposal.rewrite, proposal.diff))
            return Tried(tuple(candidates), Fix(proposal.diff, verdict), proposal)
        candidates.append(Candidate(proposal.rewrite, proposal.diff, verdict))
    return Tried(tuple(candidates))
