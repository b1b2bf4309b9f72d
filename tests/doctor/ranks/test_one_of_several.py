"""What one rank does with its own report, and what the leader makes of all: with no script at all."""

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gradwright.doctor.commands import running, several_ranks
from gradwright.doctor.commands.several_ranks import run_as_rank
from gradwright.doctor.conduct import Conducted, save
from gradwright.doctor.options import Options
from gradwright.doctor.ranks.company import interruptions
from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.facts import RankRun
from gradwright.doctor.session.model import Report

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "last.json"


@pytest.fixture
def runs(make: Any, rank_of: Any, session: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One rank after the other: the reports that they hand over wait for the leader. What each was asked is kept."""
    asked: list[Options] = []

    def keep(report: Report, path: Path) -> Path:
        save(report, path)
        return path

    def run(number: int, fate: Any = None, **environment: str) -> Conducted | None:
        def conduct(options: Options, **_: Any) -> Conducted:
            asked.append(options)
            if isinstance(fate, Exception):
                raise fate
            return Conducted(make.report(steps=10 + number), fate)

        monkeypatch.setattr(several_ranks, "conduct", conduct)
        return run_as_rank(Options(target="train.py"), rank_of(number, **environment), session, None, keep)

    run.asked = asked  # type: ignore[attr-defined]
    return run


def test_the_leader_has_the_report_of_all(runs: Any, session: Path) -> None:
    assert runs(1) is None
    done = runs(0)
    assert done.failure is None
    assert [(run.rank, run.steps, run.missing) for run in done.report.of(RankRun)] == [(0, 10, ""), (1, 11, "")]
    assert from_json((session.parent / "last.rank1.json").read_text()).script.rank == 1
    assert [(one.leads, one.agreed, bool(one.meeting)) for one in runs.asked] == [
        (False, True, True),
        (True, True, True),
    ]


def test_a_doctor_that_failed_on_one_rank_failed(runs: Any) -> None:
    assert runs(1, "Traceback\nValueError: no") is None
    assert runs(0).failure == "on rank 1: Traceback\nValueError: no"


def test_a_rank_that_can_hand_over_nothing_says_so_and_ends_as_any(runs: Any) -> None:
    assert runs(1, OSError("no space left")) is None
    done = runs(0)
    assert "OSError: no space left" in done.failure
    assert [run.missing for run in done.report.of(RankRun)] == ["", "the doctor failed: OSError: no space left"]


def test_the_leader_of_another_machine_keeps_its_report_and_is_silent(runs: Any, session: Path) -> None:
    assert runs(1, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_RANK="1") is None
    kept = from_json((session.parent / "last.node1.json").read_text())
    assert [run.rank for run in kept.of(RankRun)] == [1]
    assert kept.not_examined[-1].what == "the ranks other than 1, of 2"
    assert not runs.asked[0].agreed


def test_a_session_of_a_rank_is_that_of_a_lone_run_but_for_its_number(runs: Any, session: Path, make: Any) -> None:
    runs(1)
    kept = from_json((session.parent / "last.rank1.json").read_text())
    expected = make.report(steps=11)
    assert kept == dataclasses.replace(expected, script=dataclasses.replace(expected.script, rank=1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_torchrun_sends_is_an_interruption(number: int) -> None:
    before = signal.getsignal(number)
    with interruptions() as noted, pytest.raises(KeyboardInterrupt):
        assert not noted.seen
        os.kill(os.getpid(), number)
    assert noted.seen and signal.getsignal(number) is before


def test_sessions_that_cannot_be_written_do_not_replace_one_another(make: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = [running._keep(make.report(steps=step), tmp_path / "file" / f"{step}.json") for step in (3, 4)]
    assert [from_json(path.read_text()).script.steps for path in kept] == [3, 4]
