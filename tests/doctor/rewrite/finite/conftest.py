"""A script that breaks, run again and tried with changes as the doctor does it, in forks of this process."""

import contextlib
import gc
import json
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import gradwright.checking.nonfinite
import gradwright.doctor.rerun.trial.twin  # noqa: F401 - the same
from gradwright.doctor.rerun.again import _fact
from gradwright.doctor.rerun.process import SecondRun
from gradwright.doctor.rerun.request import ANSWER, Request
from gradwright.doctor.rerun.trial import tries
from gradwright.doctor.rerun.trial.process import TrialRun
from gradwright.doctor.rerun.trial.request import TRIAL, TrialRequest
from gradwright.doctor.rewrite import propose_finite
from gradwright.doctor.session.facts import NonfiniteBegins
from gradwright.doctor.session.model import Finding, Proof, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.proposal import Proposal

SUBJECT = Subject("call", "gradient_call", "backward", Location("train.py", 1))


@dataclass
class Mended:
    """``line``: what the fix adds, "" if there is none; ``refused``: the texts before it, and what spoke against."""

    fact: NonfiniteBegins
    why: str = ""
    lines: list[str] = field(default_factory=list)
    proof: Proof | None = None
    refused: list[tuple[list[str], str]] = field(default_factory=list)


def added(proposal: Proposal) -> list[str]:
    return [one[1:].strip() for one in proposal.diff.splitlines() if one[:1] == "+" and one[:3] != "+++"]


def forked(work: Callable[[], None]) -> None:
    gc.freeze()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            torch.set_num_threads(1)
            work()
        os._exit(9)
    os.waitpid(child, 0)


def answer_in_a_fork(module: str, write: Callable, environment: object, seconds: float, folder: Path) -> dict | None:
    (folder / ANSWER).unlink(missing_ok=True)
    write(folder)

    def work() -> None:
        request = Request.read(folder)
        trial = TrialRequest.read(folder) if module == "trial.process" else None
        (TrialRun(request, trial, folder) if trial else SecondRun(request, folder)).run()

    forked(work)
    return json.loads((folder / ANSWER).read_text()) if (folder / ANSWER).is_file() else None


class Script:
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / TRIAL).unlink(missing_ok=True)
        self.request = Request(
            target=str(folder / "train.py"), module=False, arguments=(), site=None, step=0, seconds=30.0,
            watch_from=0, own_look=False,
        )  # fmt: skip
        self.answer = answer_in_a_fork("process", self.request.write, {}, 30.0, folder)
        assert self.answer is not None and "why_not" not in self.answer, "nothing begins"
        self.fact = _fact(self.answer, SUBJECT, 0)

    def tried(self, proposal: Proposal) -> Proof | str:
        return tries.Tries(self.request, {}, self.answer, (), 60.0)(proposal, 60.0)

    def proposals(self) -> tuple[tuple[Proposal, ...], str]:
        at = self.fact.location
        assert at is not None
        finding = Finding("GW511", "nonfinite-begins", "numerics", "error", "backward", at, "", "")
        return propose_finite(finding, [self.fact], Path(at.path).read_text())

    def mended(self) -> Mended:
        proposals, why = self.proposals()
        found = Mended(self.fact, why)
        for proposal in proposals:
            verdict = self.tried(proposal)
            if isinstance(verdict, Proof):
                found.lines, found.proof = added(proposal), verdict
                break
            found.refused.append((added(proposal), verdict))
        return found


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    """``script(text, **modules)``: files in a folder of their own, the script run until it breaks."""
    monkeypatch.setattr(
        tries, "answer_of", lambda module, write, environment, seconds: answer_in_a_fork(
            module, write, environment, seconds, tmp_path),
    )  # fmt: skip

    def make(text: str, **modules: str) -> Script:
        files = {f"{name}.py": textwrap.dedent(one) for name, one in {"train": text, **modules}.items()}
        return Script(tmp_path, files)

    return make
