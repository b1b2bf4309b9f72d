"""When a rank that waits for another is asked to stop, and when it is left alone."""

import subprocess
import sys
import time
from typing import Any

import pytest

from gradwright.doctor.options import Options
from gradwright.doctor.ranks import company
from gradwright.doctor.ranks.company import Company
from gradwright.doctor.ranks.meeting import HandedOver, Meeting

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


class Time:
    """Seconds that pass when told to, and the processor seconds that the script has used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.work = 1000.0, 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(company, "_idle_at", lambda pid: self.work)

    def pass_by(self, own: Company, seconds: int, work: float = 0.0, alive: bool = False) -> bool:
        found = False
        for _ in range(seconds):
            self.now, self.work = self.now + 1.0, self.work + work
            found = own.is_stuck(1, alive) or found
        return found


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_who_neither_works_nor_tells_after_its_peer_has_gone_is_stuck(passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting:
        own = Company(meeting.rank, meeting)
        with Meeting(rank_of(1)):
            assert not passing.pass_by(own, 60)
        assert not passing.pass_by(own, 29)
        assert passing.pass_by(own, 5)


def test_a_peer_that_has_handed_over_has_gone(passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting, Meeting(rank_of(1)) as peer:
        own = Company(meeting.rank, meeting)
        peer.script_is_over()
        assert not passing.pass_by(own, 60)
        peer.hand_over(HandedOver("session"))
        assert passing.pass_by(own, 40)


@pytest.mark.parametrize("sign", [{"work": 0.5}, {"alive": True}])
def test_who_works_or_tells_is_not_stuck(sign: Any, passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting:
        own = Company(meeting.rank, meeting)
        with Meeting(rank_of(1)):
            pass
        assert not passing.pass_by(own, 60, **sign)
        assert passing.pass_by(own, 40)


def test_a_peer_that_never_came_has_not_gone(passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting:
        assert not passing.pass_by(Company(meeting.rank, meeting), 100)


def test_threads_that_only_poll_are_no_work(passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting:
        own = Company(meeting.rank, meeting)
        with Meeting(rank_of(1)):
            pass
        assert passing.pass_by(own, 40, work=0.02)


def test_only_a_sleeping_process_is_idle() -> None:
    program = "import sys, time\nprint(flush=True)\nwhile sys.argv[1] == 'runs': pass\ntime.sleep(60)"
    for doing in ("runs", "sleeps"):
        with subprocess.Popen([sys.executable, "-c", program, doing], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            found = {company._idle_at(process.pid) is not None for _ in range(20) if not time.sleep(0.02)}  # type: ignore[func-returns-value]
            process.kill()
        assert (True in found) == (doing == "sleeps")
    assert company._idle_at(process.pid) is None


def test_who_waits_for_a_peer_at_work_may_be_freed(rank_of: Any) -> None:
    with Meeting(rank_of(0)) as meeting:
        own = Company(meeting.rank, meeting)
        with Meeting(rank_of(1)) as peer:
            assert not own.may_be_freed()
            peer.script_is_over()
            assert own.may_be_freed()
            peer.hand_over(HandedOver("session"))
            assert not own.may_be_freed()


def test_the_agreed_step_is_waited_for_as_long_as_steps_take(rank_of: Any) -> None:
    options = Options(max_seconds=60.0)
    with Meeting(rank_of(0)) as meeting:
        own = Company(meeting.rank, meeting)
        assert own.slack(options, 1000) == 30.0
        assert own.slack(options, 4) == 60.0
    with Meeting(rank_of(0, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")) as meeting:
        assert Company(meeting.rank, meeting).slack(options, 4) == 1.0


def test_after_ctrl_c_torchrun_leaves_no_more_than_its_own_patience(passing: Time, rank_of: Any) -> None:
    with Meeting(rank_of(1)) as meeting:
        own = Company(meeting.rank, meeting)
        assert not own.out_of_time(None)
        assert not own.out_of_time(passing.now - 10) and own.out_of_time(passing.now - 13)
    with Meeting(rank_of(0)) as meeting:  # the leader has the others' sessions to read
        own = Company(meeting.rank, meeting)
        assert not own.out_of_time(passing.now - 13) and own.out_of_time(passing.now - 16)
