"""Which results are the same as yesterday's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwright.doctor.session.model import Environment, Finding, Report, Source
from gradwright.doctor.session.place import Location

BODY = "for i in r:\n    y[i] = x[i]\n"
AT = Location("train.py", 2, 5, 2, 9)


@pytest.fixture
def marks_of(make, run_of):
    """The fingerprints of findings in a text, in the order of their places."""

    def marks(text: str, *findings: Finding, cwd: str = "/work") -> list[str]:
        paths = {finding.location.path for finding in findings}
        sources = tuple(Source(path, "", text) for path in paths)
        run = run_of(Report(environment=Environment(cwd=cwd), sources=sources, findings=findings))
        return [result["partialFingerprints"]["gradwright/v1"] for result in run["results"]]

    return marks


def test_lines_put_in_above_change_no_fingerprint(make, marks_of):
    moved = replace(AT, line=AT.line + 40, end_line=AT.end_line + 40)
    assert marks_of(BODY, make.finding(location=AT)) == marks_of("\n" * 40 + BODY, make.finding(location=moved))


def test_neither_do_indentation_another_checkout_and_what_was_measured(make, marks_of):
    there = Location("train.py", 2, 9, 2, 13)
    once = marks_of(BODY, make.finding(location=AT, message="99 % of the step"))
    assert once == marks_of(
        BODY.replace("    ", "\t    \t  "), make.finding(location=replace(there, column=9)), cwd="/ci"
    )
    wide = replace(AT, end_column=16)
    assert marks_of(BODY, make.finding(location=wide)) == marks_of(
        "for i in r:\n    y[i]  =  x[i]\n", make.finding(location=replace(wide, end_column=18))
    )


def test_two_findings_on_equal_lines_have_two_fingerprints_and_keep_their_order(make, marks_of):
    second = replace(AT, line=4, end_line=4)
    both = marks_of(BODY * 2, make.finding(location=AT), make.finding(location=second))
    assert len(set(both)) == 2
    assert both[:1] == marks_of(BODY, make.finding(location=AT))
    assert both == marks_of(BODY * 2, make.finding(location=second), make.finding(location=AT))


@pytest.mark.parametrize(
    "other", [{"code": "GW302"}, {"subject": "Other"}, {"location": replace(AT, end_column=16)},
              {"location": replace(AT, path="other.py")}]
)  # fmt: skip
def test_another_rule_subject_text_or_file_is_another_finding(make, marks_of, other: dict):
    one = make.finding(location=AT)
    assert marks_of(BODY, one) != marks_of(BODY, replace(one, **other))


def test_a_changed_text_is_a_new_finding_and_a_changed_line_elsewhere_is_not(make, marks_of):
    one = marks_of(BODY, make.finding(location=AT))
    assert one != marks_of(BODY.replace("y[i]", "z[i]"), make.finding(location=AT))
    assert one == marks_of(BODY.replace("in r", "in range(3)"), make.finding(location=AT))


def test_a_file_elsewhere_counts_by_its_name(make, marks_of):
    here, there = (replace(AT, path=f"/{place}/site-packages/lib.py") for place in ("home/ann", "opt/ci"))
    assert marks_of(BODY, make.finding(location=here)) == marks_of(BODY, make.finding(location=there))
