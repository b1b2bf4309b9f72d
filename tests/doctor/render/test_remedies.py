"""What is said of fixes, on every face: how they were shown to be right, what they save, where they are not safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwright.doctor.render import fragment, terminal
from gradwright.doctor.render.remedies import failures, fixes_counted, how_to_fix, proof_words
from gradwright.doctor.session.model import Candidate, Environment, Fix, Proof, Report, Script

DIFF = "--- train.py\n+++ train.py\n@@ -18 +18,2 @@\n-a = b\n+a = c\n+a = a + d\n"
PROOF = Proof("verified", ("x", "y"), 5e-8, 1e-6, 0, 0.2658, 19e-6)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "verified on 2 inputs, worst difference 5e-08: 265.8 ms -> 19 us"),
        ({"before_seconds": None}, "verified on 2 inputs, worst difference 5e-08"),
        ({"before_bytes": 480_000, "after_bytes": 160_000, "after_seconds": None},
         "verified on 2 inputs, worst difference 5e-08: 480 kB -> 160 kB"),
        ({"before_bytes": 0, "after_bytes": 0}, "verified on 2 inputs, worst difference 5e-08: 265.8 ms -> 19 us"),
        ({"exact": ("[3]",)}, "verified on 2 inputs, exact at 1 shape, worst difference 5e-08: 265.8 ms -> 19 us"),
        ({"mutants_tried": 31, "mutants_rejected": 30},
         "verified on 2 inputs; 30 of 31 faulty twins rejected; worst difference 5e-08: 265.8 ms -> 19 us"),
        ({"verdict": "proved"},
         "proved for all shapes, verified on 2 inputs, worst difference 5e-08: 265.8 ms -> 19 us"),
        ({"verdict": "proved", "certificate": "each row\nstands alone.", "exact": ("[3]", "[2]"), "mutants_tried": 21,
          "mutants_rejected": 21, "before_bytes": 2_000_000, "after_bytes": 1_000},
         "proved for all shapes (each row stands alone), exact at 2 shapes, verified on 2 inputs; "
         "21 of 21 faulty twins rejected; worst difference 5e-08: 265.8 ms -> 19 us, 2 MB -> 1 kB"),
    ],
)  # fmt: skip
def test_a_proof_is_told_with_all_that_it_rests_on_and_nothing_more(fields, words):
    assert proof_words(replace(PROOF, **fields)) == words


def test_where_a_fix_is_unsafe_is_said_on_every_face(make):
    report = Report(script=make.script, findings=(make.finding(fix=Fix(DIFF, PROOF, "differs at 0 * inf")),))
    text = terminal.render(report, width=100, color=False)
    assert "\n      unsafe: differs at 0 * inf\n" in text
    assert "unsafe: differs at 0 * inf" in fragment.render(report)
    assert "1 finding, 1 verified fix (unsafe): gradwright fix train.py shows it, --apply makes it" in text
    assert "1 verified fix (unsafe)</b>: gradwright fix train.py shows it" in fragment.render(report)


def test_why_there_is_no_fix_is_said_where_there_is_none(make):
    tried = Candidate("compile_loop", DIFF, "at [0]: 1 instead of 2")
    declined = Candidate("compile_loop", "", "each element needs the one before it")
    finding = make.finding(candidates=(tried, declined))
    assert failures(finding) == (
        "compile_loop was tried and is no fix: at [0]: 1 instead of 2",
        "can't be rewritten: each element needs the one before it",
    )
    assert failures(replace(finding, fix=Fix(DIFF, PROOF))) == ()
    assert "can't be rewritten: each element" in terminal.render(Report(findings=(finding,)), width=100)


def test_fixes_are_counted_by_verdict(make):
    proved = make.finding(fix=Fix(DIFF, replace(PROOF, verdict="proved")))
    verified, unsafe = make.finding(fix=Fix(DIFF, PROOF)), make.finding(fix=Fix(DIFF, PROOF, "at 0"))
    assert fixes_counted([make.finding()]) == []
    assert fixes_counted([proved, verified, verified]) == ["1 proved fix", "2 verified fixes"]
    assert fixes_counted([proved, unsafe]) == ["1 proved fix", "1 verified fix (1 unsafe)"]


def test_the_command_is_offered_where_there_is_a_script_and_a_fix(make):
    fixed = (make.finding(fix=Fix(DIFF, PROOF)),) * 2
    script = Script(argv=("my train.py", "--epochs", "2"))
    assert how_to_fix(Report(script=script, findings=fixed)) == (
        "gradwright fix 'my train.py' --epochs 2 shows them, --apply makes them"
    )
    here, there = Environment(cwd="/home/me"), replace(script, argv=("/home/me/run/train.py",))
    assert "fix run/train.py shows" in how_to_fix(Report(environment=here, script=there, findings=fixed))
    assert "fix /home/me/run/train.py" in how_to_fix(Report(script=there, findings=fixed))
    assert how_to_fix(Report(findings=fixed)) == ""
    assert how_to_fix(Report(script=script, findings=(make.finding(),))) == ""
