"""A rank that dies of its peer's death is no finding; one that waits for a peer that has come to its end is."""

from typing import Any

import pytest

from gradwright.doctor.ranks.lost_peers import fates_of
from gradwright.doctor.session.facts import ScriptDied, ScriptKilled
from gradwright.doctor.session.model import Report, ScriptDeath
from gradwright.doctor.session.place import Location

LOST = (
    "[third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:60607",
    "[third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:1523: Connection reset by peer",
    "NCCL communicator was aborted on rank 0.",
    "Broken pipe",
    "wait timeout after 300000ms, keys: /worker",
)


@pytest.fixture
def died(make: Any) -> Any:
    def report(message: str, type: str = "RuntimeError", **script: Any) -> Report:
        fact = ScriptDied(id="died", subject="script", type=type, message=message, location=Location("train.py", 12))
        finding = make.finding("GW901", f"the script ended with {type}", category="doctor", evidence=("died",))
        death = ScriptDeath(type, message, "Traceback", Location("train.py", 12))
        return make.report(fact, finding, **{"exit_code": 1, "exception": death, "steps": 4, **script})

    return report


@pytest.mark.parametrize("message", LOST)
def test_what_follows_from_a_peers_death_is_told_as_such(message: str, died: Any) -> None:
    fates = fates_of({0: died(message), 1: died("no such word", "ValueError")}, ())
    assert not fates.reports[0].findings and fates.reports[0].script.exception is None
    assert [finding.code for finding in fates.reports[1].findings] == ["GW901"]
    assert [(item.what, item.why) for item in fates.consequences] == [
        ("rank 0 after 4 steps", "its script lost its peer: that of rank 1 had ended")
    ]
    assert fates.ends == {0: "lost its peer at train.py:12", 1: "died of ValueError at train.py:12"}


@pytest.mark.parametrize("message", ["mat1 and mat2 shapes cannot be multiplied", "the connection pool is empty"])
def test_another_error_is_its_own(message: str, died: Any) -> None:
    reports = {0: died(message), 1: died("no such word", "ValueError")}
    assert fates_of(reports, ()).reports == reports


def test_a_word_of_lost_peers_in_another_exception_is_its_own(died: Any) -> None:
    reports = {0: died("Connection closed by peer", "ValueError"), 1: died("no such word", "ValueError")}
    assert fates_of(reports, ()).reports == reports


def test_a_killed_peer_and_one_without_a_session_have_died(died: Any, make: Any) -> None:
    killed = make.report(ScriptKilled(id="k", subject="script", signal="SIGKILL", steps=3, gradients=3), exit_code=-9)
    assert fates_of({0: died(LOST[0]), 1: killed}, ()).consequences
    assert fates_of({0: died(LOST[0])}, (1,)).consequences


def test_a_peer_that_ran_out_of_batches_has_not(died: Any, make: Any) -> None:
    fates = fates_of({0: died(LOST[0]), 1: make.report(steps=6)}, ())
    assert not fates.consequences
    (finding,) = fates.reports[0].findings
    assert finding.why.startswith("The script of rank 1 had ended before, after 6 steps.")


def test_where_all_lost_one_another_all_stays(died: Any) -> None:
    reports = {0: died(LOST[0]), 1: died(LOST[1])}
    assert fates_of(reports, ()).reports == reports


@pytest.mark.parametrize("code", [7, 1])
def test_who_exits_ill_without_a_word_is_named(code: int, died: Any, make: Any) -> None:
    fates = fates_of({0: died(LOST[0]), 1: make.report(exit_code=code), 2: make.report(exit_code=code)}, ())
    assert fates.unexplained == {1: f"exited {code}", 2: f"exited {code}"}
    assert fates_of({0: make.report(), 1: make.report(exit_code=code)}, ()).unexplained == {1: f"exited {code}"}
    assert fates_of({0: make.report(exit_code=code)}, (1,)).unexplained == {0: f"exited {code}"}


def test_how_all_ranks_end_is_how_the_script_ends(make: Any) -> None:
    assert fates_of({0: make.report(exit_code=7), 1: make.report(exit_code=7)}, ()).unexplained == {}
    assert fates_of({0: make.report(), 1: make.report()}, ()).unexplained == {}


def test_an_end_that_is_told_is_explained(died: Any, make: Any) -> None:
    killed = make.report(ScriptKilled(id="k", subject="script", signal="SIGKILL", steps=3, gradients=3), exit_code=-9)
    stopped = make.report(exit_code=1, stopped_early="after 4 optimizer steps")
    for other in (died("no such word", "ValueError"), killed, stopped):
        assert fates_of({0: make.report(), 1: other}, ()).unexplained == {}
