"""The leader gets the session of each rank, or says why there is none."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gradwright.doctor.ranks import waiting
from gradwright.doctor.ranks.meeting import HandedOver, Meeting
from gradwright.doctor.ranks.waiting import others
from gradwright.doctor.session.codec import to_json

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


@pytest.fixture
def said() -> list[str]:
    return []


def test_sessions_come_in_the_order_of_ranks(make: Any, rank_of: Any, tmp_path: Path, said: list[str]) -> None:
    with Meeting(rank_of(0, 3)) as leader, Meeting(rank_of(2, 3)) as last, Meeting(rank_of(1, 3)) as second:
        for number, meeting in ((2, last), (1, second)):
            session = tmp_path / f"last.rank{number}.json"
            session.write_text(to_json(make.report(steps=number)))
            meeting.hand_over(HandedOver(str(session), "" if number == 1 else "Traceback: it broke"))
        members, failures = others(leader, 5.0, said.append)
    assert [(one.rank, one.report.script.steps, one.missing) for one in members] == [(1, 1, ""), (2, 2, "")]
    assert failures == ["on rank 2: Traceback: it broke"] and not said


def test_a_rank_that_comes_later_is_waited_for(make: Any, rank_of: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(waiting, "_TELL_AFTER", 0.2)
    said: list[str] = []
    session = tmp_path / "s.json"
    session.write_text(to_json(make.report()))
    with Meeting(rank_of(0)) as leader, Meeting(rank_of(1)) as peer:
        threading.Timer(0.6, lambda: peer.hand_over(HandedOver(str(session)))).start()
        members, _ = others(leader, 20.0, said.append)
    assert members[0].report is not None and said == ["waiting for rank 1"]


def test_a_rank_that_died_is_not_waited_for(rank_of: Any, said: list[str]) -> None:
    with Meeting(rank_of(0)) as leader:
        with Meeting(rank_of(1)):
            pass
        members, _ = others(leader, None, said.append)  # without a limit it would wait for ever
    assert members[0].report is None and members[0].missing == "its process ended before it had a session"


def test_a_rank_that_lives_is_waited_for_as_long_as_is_said(rank_of: Any, said: list[str]) -> None:
    with Meeting(rank_of(0)) as leader, Meeting(rank_of(1)):
        members, _ = others(leader, 0.3, said.append)
    assert "when the time for waiting was up" in members[0].missing


def test_a_rank_that_never_came_is_on_no_file_of_ours(rank_of: Any, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(waiting, "_ARRIVAL_SECONDS", 0.2)
    with Meeting(rank_of(0)) as leader:
        members, _ = others(leader, None, said.append)
    assert members[0].missing.startswith("it did not come to ") and "LOCAL_WORLD_SIZE" in members[0].missing


@pytest.mark.parametrize("cut", [0, 30, 400])
def test_a_session_cut_off_is_none(cut: int, make: Any, rank_of: Any, tmp_path: Path, said: list[str]) -> None:
    session = tmp_path / "s.json"
    session.write_text(to_json(make.report())[:cut])
    with Meeting(rank_of(0)) as leader, Meeting(rank_of(1)) as peer:
        peer.hand_over(HandedOver(str(session)))
        members, _ = others(leader, 5.0, said.append)
    assert members[0].report is None and members[0].missing.startswith("its session can't be read")


def test_a_doctor_that_failed_without_a_session_is_told(rank_of: Any, said: list[str]) -> None:
    with Meeting(rank_of(0)) as leader, Meeting(rank_of(1)) as peer:
        peer.hand_over(HandedOver("", "Traceback\nOSError: no space"))
        members, failures = others(leader, 5.0, said.append)
    assert members[0].missing == "the doctor failed: OSError: no space"
    assert failures == ["on rank 1: Traceback\nOSError: no space"]


def test_ctrl_c_ends_the_waiting(rank_of: Any, monkeypatch: Any, said: list[str]) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with Meeting(rank_of(0)) as leader, Meeting(rank_of(1)):
        monkeypatch.setattr(time, "sleep", interrupted)
        members, _ = others(leader, None, said.append)
    assert members[0].missing == "not waited for: interrupted"
