"""Reports in, one report out: nothing is told twice, nothing is lost, and no rank is said to have done another's."""

import dataclasses
from typing import Any

from gradwright.doctor.ranks.merging import Member, merge
from gradwright.doctor.render.view import view
from gradwright.doctor.session.codec import from_json, to_json
from gradwright.doctor.session.facts import FunctionCalls, GradientVerdict, RankRun, RanksDiffer, ScriptDied
from gradwright.doctor.session.model import NotExamined, Report, ScriptDeath
from gradwright.doctor.session.place import Location


def merged(*reports: Report | None) -> Report:
    members = [
        Member(rank, report, f"last.rank{rank}.json" if report else "", "" if report else "it was gone")
        for rank, report in enumerate(reports)
    ]
    return merge(members, len(members))


def test_equal_ranks_are_told_once(make: Any) -> None:
    one = make.report(make.calls(10), make.verdict("right"), make.finding(), make.specimen(8, 4))
    report = merged(one, one, one)
    assert report.findings == one.findings and report.subjects == one.subjects and report.specimens == one.specimens
    assert not list(report.of(RanksDiffer)) and len(list(report.of(GradientVerdict))) == 1
    assert [run.rank for run in report.of(RankRun)] == [0, 1, 2]
    assert report.script.rank is None


def test_a_merged_session_is_a_session(make: Any) -> None:
    report = merged(make.report(make.calls(10)), make.report(make.calls(8), make.finding(evidence=("x",)), steps=8))
    assert from_json(to_json(report)) == report


def test_the_worst_end_is_that_of_the_run(make: Any) -> None:
    assert merged(make.report(), make.report(exit_code=3)).script.exit_code == 3
    assert merged(make.report(exit_code=1), make.report(exit_code=-9)).script.exit_code == -9
    assert merged(make.report(), make.report()).script.exit_code == 0


def test_a_rank_that_ended_ill_is_no_clean_run(make: Any) -> None:
    ill = merged(make.report(), make.report(exit_code=7))
    assert [run.unexplained for run in ill.of(RankRun)] == ["", "exited 7"]
    assert not ill.ok and view(ill).summary == "no rule explains how rank 1 ended"
    both = merged(make.report(), make.report(exit_code=7), None)
    assert view(both).summary == "no rule explains how rank 1 ended, rank 2 has no session"
    with_finding = merged(make.report(make.finding()), make.report(make.finding(), exit_code=7))
    assert view(with_finding).summary == "1 finding, no rule explains how rank 1 ended"
    info = make.finding("GW303", severity="info")
    assert view(merged(make.report(info), None)).summary == "rank 1 has no session, 1 finding for information"


def test_ranks_that_end_alike_are_as_clean_as_one(make: Any) -> None:
    for code in (0, 7):
        report = merged(make.report(exit_code=code), make.report(exit_code=code))
        assert report.ok and view(report).summary == "nothing wrong was found"


def test_a_rank_without_a_session_says_why(make: Any) -> None:
    report = merged(make.report(), None)
    assert NotExamined("rank 1", "it was gone") in report.not_examined
    assert [(run.session, run.missing) for run in report.of(RankRun)] == [
        ("last.rank0.json", ""),
        ("", "it was gone"),
    ]
    assert not list(report.of(RanksDiffer))
    assert not report.ok and view(report).summary == "rank 1 has no session"


def test_evidence_of_another_rank_comes_with_its_number(make: Any) -> None:
    wrong = make.verdict("wrong")
    other = make.report(make.calls(10), wrong, make.finding(evidence=(wrong.id,)), make.specimen(8, 4))
    report = merged(make.report(make.calls(10), make.verdict("right"), make.specimen(8, 4)), other)
    (finding,) = report.findings
    assert finding.evidence == (f"rank 1: {wrong.id}",)
    (fact,) = (fact for fact in report.facts if fact.id == finding.evidence[0])
    assert isinstance(fact, GradientVerdict) and fact.verdict == "wrong" and fact.subject == make.square.id
    assert fact.specimen in {specimen.id for specimen in report.specimens}
    assert len({fact.id for fact in report.facts}) == len(report.facts)


def test_what_only_another_rank_met_is_there(make: Any) -> None:
    other = make.report(make.calls(10, make.scale), make.verdict("right", make.scale), subjects=(make.scale,))
    report = merged(make.report(make.calls(10)), other)
    assert report.subjects == (make.square, make.loss, make.scale)
    assert [calls.forward_calls for calls in report.of(FunctionCalls, make.scale.id)] == [10]


def test_what_rank_0_could_not_judge_another_has_judged_once(make: Any) -> None:
    others = make.report(make.calls(10), make.verdict("right"), make.specimen(8, 4))
    report = merged(make.report(make.calls(10)), others, others)
    (verdict,) = report.of(GradientVerdict)
    assert verdict.id.startswith("rank 1: ")
    assert verdict.specimen in {specimen.id for specimen in report.specimens}


def test_what_was_not_examined_is_united(make: Any) -> None:
    same = NotExamined("loops of a.py", "generated")
    never = NotExamined("Square", "its apply was not called in this run")
    first = make.report(same, never, NotExamined("the time", "3 s"))
    others = make.report(same, make.calls(10), NotExamined("the time", "4 s"), NotExamined("memory", "no fork"))
    items = merged(first, others, others).not_examined
    assert items == (same, NotExamined("the time", "3 s"), NotExamined("memory (on ranks 1 and 2)", "no fork"))


def test_no_fix_was_tried_of_what_only_another_rank_has(make: Any) -> None:
    report = merged(make.report(), make.report(make.finding()))
    assert any(item.what == "a fix of GW101 at train.py:9" for item in report.not_examined)
    without_rewrite = merged(make.report(), make.report(make.finding("GW901", category="doctor")))
    assert not any(item.what.startswith("a fix of") for item in without_rewrite.not_examined)


def test_a_death_on_one_rank_is_that_of_the_script(make: Any) -> None:
    death = ScriptDeath("ValueError", "no such word", "Traceback", Location("train.py", 30))
    died = ScriptDied(id="died", subject="script", type="ValueError", message="no such word")
    dead = make.report(died, make.finding("GW901", evidence=("died",)), exit_code=1, exception=death)
    report = merged(make.report(stopped_early="its time was up"), dead)
    assert report.script.exception == death and report.script.exit_code == 1
    assert report.findings[0].evidence == ("rank 1: died",)


def test_a_wrong_gradient_of_another_rank_shows_without_its_finding(make: Any) -> None:
    right, wrong = make.verdict("right"), make.verdict("wrong")
    report = merged(make.report(make.calls(9), right), make.report(make.calls(9), wrong))
    assert [verdict.verdict for verdict in report.of(GradientVerdict)] == ["right", "wrong"]
    (row,) = view(report).rows
    assert (row.gradient.word, row.gradient.rest.endswith(" (on rank 1)")) == ("WRONG", True)


def test_ranks_are_not_counted_as_inputs(make: Any) -> None:
    def wrong(*specimens: str) -> Report:
        verdicts = [dataclasses.replace(make.verdict("wrong", specimen=one), id=f"v {one}") for one in specimens]
        right = [dataclasses.replace(make.verdict("right", specimen="s9"), id="v s9")]
        return make.report(make.calls(9), *verdicts, *right, make.finding(evidence=tuple(f"v {s}" for s in specimens)))

    (row,) = view(merged(wrong("s0", "s1"), wrong("s0", "s1"))).rows
    assert str(row.gradient).endswith("(on 2 of 3 inputs)")
    others = make.report(make.calls(9), make.verdict("right"))
    (row,) = view(merged(others, wrong("s0"), wrong("s0"))).rows
    assert str(row.gradient).endswith("(on ranks 1 and 2)")
