"""Changes of the place where NaN or inf begins, each tried in a run of the script."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradwright.doctor.rerun.launching import answer_of
from gradwright.doctor.rerun.request import Request
from gradwright.doctor.rerun.trial.judging import judged, unlike
from gradwright.doctor.rerun.trial.request import Outcome, TrialRequest
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.places import home

_LEAST_SECONDS = 1.0


class Tries:
    """``request`` and ``answer`` of the second run; ``first``: the losses of the first run; ``seconds`` for all tries
    together. A call takes a proposal and the seconds that are left for it otherwise; it returns the proof, or what
    speaks against the proposal."""

    def __init__(
        self,
        request: Request,
        environment: dict[str, str],
        answer: dict[str, Any],
        first: Sequence[float],
        seconds: float,
    ) -> None:
        self._request, self._environment = request, environment
        self._losses: list[float | None] = answer["values"]
        self._of_site: list[float | None] = answer["of_site"]
        self._call: int = answer["call"]
        self._first = first
        self._left = seconds

    def __call__(self, proposal: Proposal, seconds: float) -> Proof | str:
        told = self._unlike_the_first()
        if told:
            return told
        seconds = min(seconds, self._left)
        if seconds < _LEAST_SECONDS:
            return "it was not tried: the time for runs of the script was used up"
        started = time.monotonic()
        try:
            return self._tried(proposal, seconds)
        finally:
            self._left -= time.monotonic() - started

    def _tried(self, proposal: Proposal, seconds: float) -> Proof | str:
        path = str(Path(home()) / proposal.path)
        each = math.ceil(len(self._losses) / len(self._of_site)) if self._of_site else 1
        trial = TrialRequest.of(proposal, path, self._call, each)
        request = replace(self._request, seconds=seconds)

        def write(folder: Path) -> None:
            request.write(folder)
            trial.write(folder)

        try:
            answer = answer_of("trial.process", write, self._environment, seconds)
        except TimeoutError:
            return f"it was not tried to the end: its run took longer than {seconds:.0f} s"
        except OSError as error:
            return f"it was not tried: the script can't be run again: {error}"
        if answer is None:
            return "its run of the script ended without an answer, after its time or by a crash"
        trial_opened = proposal.twin is not None and proposal.twin.opened
        return judged(Outcome(**answer), self._losses, self._call, path, opened=trial_opened)

    def _unlike_the_first(self) -> str:
        """Where two runs of the unchanged script differ, a third one shows nothing."""
        steps = min(len(self._first), len(self._of_site))
        told = unlike(list(self._first), self._of_site, steps - 1) if steps else ""
        if not isinstance(told, str) or not told:
            return ""
        return f"no change can be tried, as the script's runs are not alike: {told}"
