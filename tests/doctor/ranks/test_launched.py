"""Whole runs of two ranks that talk by gloo: one report, whatever becomes of either."""

from pathlib import Path
from typing import Any

import pytest
from tests.doctor.ranks.launching import by_torchrun, one_by_one

from gradwright.doctor.mending.sessions import last_session
from gradwright.doctor.session.facts import GradientVerdict, RankRun, RanksDiffer

# Each starts two interpreters with torch: one after the other.
pytestmark = pytest.mark.xdist_group("ranks")


def differing(report: Any) -> dict[str, tuple[str, ...]]:
    return {fact.what: tuple(word for _, word in fact.values) for fact in report.of(RanksDiffer)}


def test_torchrun_gives_one_report_of_all_ranks(tmp_path: Path, warm_python: Path) -> None:
    told = by_torchrun(tmp_path, warm_python, "one wrong", "6")
    assert told.kept == ["last.json", "last.rank0.json", "last.rank1.json"]
    assert told.stdouts[0].count("· 2 ranks ·") == 1
    (wrong,) = (finding for finding in told.session.findings if finding.severity == "error")
    assert wrong.code == "GW101" and wrong.message.endswith("of x (on rank 1)")
    assert wrong.message in " ".join(told.stdouts[0].split())
    assert differing(told.session)["Halved"] == ("never called", "called 6 times")
    assert [run.steps for run in told.session.of(RankRun)] == [6, 6]
    assert {verdict.verdict for verdict in told.session.of(GradientVerdict)} == {"right", "wrong"}
    # The script's prints are left as they are; one rank alone speaks for the doctor; torchrun says what exited 1.
    assert "rank 1 made 6 steps" in told.stderr and told.stderr.count("gradwright: running") == 1
    assert told.codes == [1] and "ChildFailedError" in told.stderr
    assert (told.of("last.rank0.json").script.rank, told.of("last.rank1.json").script.rank) == (0, 1)
    assert not list(told.of("last.rank0.json").of(RankRun))


def test_a_rank_that_dies_is_the_cause_and_what_its_peer_died_of_is_not(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "dies", "8", ours=["--exit-zero"])
    assert told.codes == [0, 0]
    assert [finding.code for finding in told.session.findings if finding.severity != "info"] == ["GW901"]
    assert told.session.script.exception.type == "ValueError"
    assert differing(told.session)["how the script ended"][0].startswith("lost its peer at script.py:")
    assert "Connection closed by peer" in told.stderr


def test_findings_of_all_ranks_are_told_once(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "both wrong", "6", ours=["--output", "report.txt"], fixes=True)
    assert told.codes == [1, 0]
    (wrong,) = (finding for finding in told.session.findings if finding.severity == "error")
    assert wrong.message.endswith("of x") and wrong.fix is not None and not differing(told.session)
    assert (tmp_path / "report.txt").read_text().count("GW101") >= 1
    # With --output what the script prints stays where it belongs.
    assert told.stdouts == ["rank 0 made 6 steps\n", "rank 1 made 6 steps\n"]
    kept = tmp_path / ".gradwright" / "last.json"
    assert not isinstance(last_session(kept, ("script.py", "both wrong", "6"), tmp_path), str)  # what `fix` works on


def test_when_time_is_up_all_stop_after_the_same_step(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "slow", "1000", ours=["--max-seconds", "4"])
    first, second = (told.of(f"last.rank{rank}.json").script for rank in range(2))
    assert first.stopped_early == second.stopped_early == "4 s after the first gradient"
    assert first.steps == second.steps < 60
    assert told.codes == [0, 0] and told.stdouts[1] == ""


def test_all_stop_after_so_many_steps(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "slow", "1000", ours=["--max-steps", "7"])
    assert [run.steps for run in told.session.of(RankRun)] == [7, 7]
    assert told.session.script.stopped_early == "after 7 optimizer steps" and not differing(told.session)


def test_a_forward_past_the_wrapper_parts_the_replicas(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "parted", "6")
    ((what, (first, second)),) = differing(told.session).items()
    assert what == "parameters that DDP keeps alike, summed up after step 4" and first != second
    assert what in " ".join(told.stdouts[0].split())


def test_a_rank_that_hangs_is_found_where_it_hangs(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "hangs", "8", ours=["--max-seconds", "8"])
    lines = (tmp_path / "script.py").read_text().splitlines()
    waiting, asleep = (int(end.rpartition(":")[2]) for end in differing(told.session)["how the script ended"])
    assert "backward()" in lines[waiting - 1] and "sleep(1000)" in lines[asleep - 1]
    assert any(verdict.verdict == "right" for verdict in told.of("last.rank0.json").of(GradientVerdict))


def test_a_rank_that_was_killed_has_left_what_it_knew(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "killed", "8")
    assert told.session.script.exit_code == -9
    assert [finding.code for finding in told.session.findings if finding.severity != "info"] == ["GW902"]
    assert differing(told.session)["how the script ended"][1] == "ended by signal 9"


def test_a_rank_that_exits_ill_is_no_clean_run(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "exits", "8")
    assert told.codes == [1, 0] and told.session.script.exit_code == 7
    assert "no rule explains how rank 1 ended" in told.stdouts[0] and "nothing wrong" not in told.stdouts[0]
    assert [run.unexplained for run in told.session.of(RankRun)] == ["", "exited 7"]


def test_ranks_that_share_nothing_come_each_to_their_own_end(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "alone", "12")
    assert differing(told.session) == {"steps": ("12", "6")}
    assert told.codes == [0, 0]


def test_a_rank_that_runs_out_of_batches_is_named(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "uneven", "12")
    (finding,) = (finding for finding in told.session.findings if finding.code == "GW901")
    assert finding.why.startswith("The script of rank 1 had ended before, after 6 steps.")
    assert finding.message.endswith("(on rank 0 only)")


def test_ctrl_c_ends_all_and_the_report_follows(tmp_path: Path, warm_python: Path) -> None:
    told = one_by_one(tmp_path, warm_python, "slow", "1000", interrupt=0.5)
    assert "KeyboardInterrupt" in told.stdouts[0] or "Ctrl-C" in told.stdouts[0]
    assert [run.missing for run in told.session.of(RankRun)] == ["", ""]
    assert told.stdouts[1] == ""
