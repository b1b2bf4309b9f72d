"""What several workers found is told once; what they counted is added up; what one examined is not missing."""

from gradwright.doctor.session.facts import (
    CalledByTests,
    Counterexample,
    FunctionCalls,
    FunctionFormula,
    GradientVerdict,
)
from gradwright.doctor.session.model import (
    Environment,
    Finding,
    Fix,
    NotExamined,
    Proof,
    Report,
    Source,
    Specimen,
    Subject,
)
from gradwright.doctor.session.place import Location
from gradwright.testing.diagnosed.merged import merged
from gradwright.testing.diagnosed.record import NO_TEST, ONLY_LEFT_OUT

AT = Location("a.py", 3, 5, 3, 9)
SQUARE = Subject("function:Square@a.py:1", "function", "Square", Location("a.py", 1))
FIX = Fix("--- a\n+++ b\n", Proof("verified", ("x",), 0.0, 0.0, 1))


def finding(message="Square is wrong in x", *, at=AT, code="GW101", severity="error", fix=None, evidence=("v",)):
    return Finding(code, "name", "gradient", severity, "Square", at, message, "why", evidence=evidence, fix=fix)


def calls(count):
    return FunctionCalls(
        id="calls f",
        subject=SQUARE.id,
        forward_calls=count,
        tracked_calls=count,
        backward_calls=count,
        forward_seconds=count * 0.5,
        backward_seconds=count * 0.25,
        share_of_step=0.1 * count,
    )


def verdict(error):
    return GradientVerdict(
        id="v", subject=SQUARE.id, specimen="s#0", input_index=0, input_name="x", verdict="wrong", error=error
    )


def report(*findings, facts=(), gaps=(), subjects=(SQUARE,)):
    return Report(
        environment=Environment(torch="2.13"),
        sources=(Source("a.py", "0", "text"),),
        subjects=subjects,
        specimens=(Specimen("s#0", SQUARE.id, 1),),
        facts=facts,
        findings=findings,
        not_examined=gaps,
    )


def test_the_same_finding_is_told_once_though_its_numbers_were_measured_anew():
    one = merged({"gw0": report(finding("a loop: 99 % of 1.5 s")), "gw1": report(finding("a loop: 7 % of 80 ms"))})
    assert [found.message for found in one.findings] == ["a loop: 99 % of 1.5 s"]


def test_findings_that_differ_in_place_code_or_words_all_stay_and_errors_come_first():
    other = Location("a.py", 4)
    one = merged(
        {
            "gw0": report(finding("it is slow", code="GW301", severity="warning")),
            "gw1": report(finding(), finding("Square is wrong in w"), finding(at=other)),
        }
    )
    assert [found.code for found in one.findings] == ["GW101", "GW101", "GW101", "GW301"]


def test_the_one_with_a_fix_is_told():
    one = merged({"gw0": report(finding()), "gw1": report(finding(fix=FIX)), "gw2": report(finding())})
    assert [found.fix for found in one.findings] == [FIX]


def test_calls_and_tests_are_added_up():
    def tests(*ids):
        return CalledByTests(id="tests f", subject=SQUARE.id, tests=ids, count=len(ids) + 1, seconds=2.0)

    one = merged({"gw0": report(facts=(calls(2), tests("b", "c"))), "gw1": report(facts=(calls(3), tests("a", "d")))})
    (total,) = one.of(FunctionCalls)
    assert (total.forward_calls, total.backward_calls, total.forward_seconds) == (5, 5, 2.5)
    (called,) = one.of(CalledByTests)
    assert (called.tests, called.count, called.seconds) == (("a", "b", "c"), 6, 4.0)
    assert one.subjects == (SQUARE,) and len(one.sources) == 1


def test_evidence_and_specimens_are_still_found_by_their_ids():
    shown = Counterexample(id="c", subject=SQUARE.id, verdict="v", text="program")
    formula = FunctionFormula(id="formula f", subject=SQUARE.id, forward="x**2")
    facts = (verdict(0.5), shown, formula)
    one = merged({"gw0": report(finding(), facts=facts), "gw1": report(facts=(verdict(0.25), formula))})
    assert [fact.verdict for fact in one.of(Counterexample)] == ["gw0 v"]
    assert list(one.of(FunctionFormula)) == [formula]
    by_id = {fact.id: fact for fact in one.of(GradientVerdict)}
    (found,) = one.findings
    assert [by_id[id_].error for id_ in found.evidence] == [0.5]
    assert {fact.specimen for fact in one.of(GradientVerdict)} == {specimen.id for specimen in one.specimens}
    assert len(one.specimens) == 2


def test_what_one_worker_examined_is_not_missing():
    blind = report(
        gaps=(
            NotExamined("the gradient of Square", "none of its calls could receive a gradient"),
            NotExamined("Square", "the 25 s for trying subjects were used up"),
            NotExamined("Other", "the 25 s for trying subjects were used up"),
        )
    )
    one = merged({"gw0": blind, "gw1": report(facts=(verdict(0.0),))})
    assert [gap.what for gap in one.not_examined] == ["Other"]


def test_what_one_worker_called_another_need_not():
    blind = report(
        gaps=(
            NotExamined("Square", f"{NO_TEST} (a.py:1)"),
            NotExamined("Cube", f"{NO_TEST} (a.py:9)"),
            NotExamined("Fourth", f"{ONLY_LEFT_OUT} (test)"),
        ),
        subjects=(),
    )
    one = merged({"gw0": blind, "gw1": report(), "gw2": blind})
    assert [gap.what for gap in one.not_examined] == ["Cube", "Fourth"]


def test_of_no_worker_nothing_is_said():
    assert merged({}) == Report()
