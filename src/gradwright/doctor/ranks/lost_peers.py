"""A rank whose peer has died dies of that: the peer's death is the cause, this one only what follows.

What follows is told among what was not examined, and is no finding; where no rank died of its own accord (one of them
ran out of batches, say), the error is all there is, and stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.ranks.ending import end_of
from gradwright.doctor.session.facts import ScriptDied, ScriptKilled
from gradwright.doctor.session.model import NotExamined, Report

# The words of gloo, NCCL and the store for a peer that is not there any more.
_LOST = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|socket (closed|timeout)"
    r"|remote (peer|process) (has )?(exited|closed)|connectFullMesh failed"
    r"|NCCL (communicator was aborted|error)|ncclRemoteError|wait timeout|timed out waiting",
    re.IGNORECASE,
)
_KINDS = ("RuntimeError", "DistBackendError", "DistNetworkError", "DistStoreError", "DistError", "ConnectionError")


@dataclass(frozen=True)
class Fates:
    """The reports, less the deaths that another rank's death has caused; what is said of these; how the scripts of
    ranks ended, in words; and which of these ends are ill without an exception or a signal that tells why."""

    reports: dict[int, Report]
    consequences: list[NotExamined]
    ends: dict[int, str]
    unexplained: dict[int, str]


def fates_of(reports: dict[int, Report], missing: Sequence[int]) -> Fates:
    """``missing``: ranks that have no session."""
    ends = {rank: end_of(report.script) for rank, report in reports.items()}
    lost = {rank: deaths for rank, report in reports.items() if (deaths := _of_a_lost_peer(report))}
    others = [rank for rank in reports if rank not in lost]
    died = [*(rank for rank in others if _died(reports[rank])), *missing]
    kept = dict(reports)
    said = []
    for rank, deaths in lost.items():
        at = f" at {deaths[0].location}" if deaths[0].location else ""
        ends[rank] = f"lost its peer{at}"
        those = {death.id for death in deaths}
        if died:
            kept[rank] = _without(reports[rank], those)
            words = f"its script lost its peer: that of rank {min(died)} had ended"
            said.append(NotExamined(f"rank {rank} after {reports[rank].script.steps} steps", words))
        elif others:
            peer = reports[others[0]].script
            words = f"The script of rank {others[0]} had ended before, after {peer.steps} steps."
            kept[rank] = _explained(reports[rank], those, words)
    unexplained = {rank: ends[rank] for rank in others if _ill_without_a_word(reports[rank])}
    alike = len(unexplained) == len(reports) and len(set(unexplained.values())) == 1 and not missing
    return Fates(kept, said, ends, {} if alike else unexplained)


def _ill_without_a_word(report: Report) -> bool:
    """``sys.exit(7)``, ``os._exit(7)``. Where all ranks do it, it is how this script ends."""
    script = report.script
    told = script.exception is not None or script.stopped_early is not None or any(report.of(ScriptKilled))
    return (script.exit_code or 0) > 0 and not told and not any(report.of(ScriptDied, "script"))


def _of_a_lost_peer(report: Report) -> list[ScriptDied]:
    return [
        death
        for death in report.of(ScriptDied)
        if death.type.rpartition(".")[2] in _KINDS and _LOST.search(death.message) and death.subject == "script"
    ]


def _died(report: Report) -> bool:
    own = any(death.subject == "script" for death in report.of(ScriptDied)) or any(report.of(ScriptKilled))
    code = report.script.exit_code
    return own or (code is not None and code != 0 and report.script.exception is None)


def _without(report: Report, deaths: set[str]) -> Report:
    return dataclasses.replace(
        report,
        findings=tuple(finding for finding in report.findings if not deaths & set(finding.evidence)),
        script=dataclasses.replace(report.script, exception=None),
    )


def _explained(report: Report, deaths: set[str], words: str) -> Report:
    findings = (
        dataclasses.replace(finding, why=f"{words} {finding.why}") if deaths & set(finding.evidence) else finding
        for finding in report.findings
    )
    return dataclasses.replace(report, findings=tuple(findings))
