"""Which finding is which, and what became of it: planted changes of a script with findings."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from gradwright.doctor.comparing import compare
from gradwright.doctor.comparing.shown import as_text
from gradwright.doctor.session.hunks import unified
from gradwright.doctor.session.model import Finding, Fix, Proof, Report, Source
from gradwright.doctor.session.place import Location

TEXT = """\
import torch

def one(x):
    for i in range(len(x)):
        y[i] = 2 * x[i]
    return y

def two(x):
    for i in range(len(x)):
        y[i] = 2 * x[i]
    return y

def backward(ctx, g):
    return 0.5 * g
"""


def line_of(text: str, what: str, occurrence: int = 0) -> int:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if what in line]
    return lines[occurrence]


def finding(text: str, what: str, occurrence: int = 0, **fields) -> Finding:
    base = Finding(
        code="GW301",
        name="python-loop-over-elements",
        category="speed",
        severity="warning",
        subject="train",
        location=Location("train.py", line_of(text, what, occurrence), 5),
        message="a loop over elements: 2,000 operations",
        why="it is",
    )
    return dataclasses.replace(base, **fields)


def session(text: str = TEXT, *findings: Finding, path: str = "train.py", **fields) -> Report:
    source = Source(path, hashlib.sha256(text.encode()).hexdigest(), text)
    return Report(sources=(source,), findings=findings, **fields)


def loops(text: str = TEXT) -> tuple[Finding, Finding]:
    """Two findings of one code and subject, on lines that read alike."""
    return finding(text, "for i", 0), finding(text, "for i", 1)


def kinds(old: Report, new: Report) -> list[str]:
    return [change.how for change in compare(old, new).findings]


def test_the_same_session_twice_is_no_change():
    report = session(TEXT, *loops())
    found = compare(report, report)
    assert (found.findings, found.same, found.worse) == ((), 2, False)


def test_findings_that_moved_are_the_same_ones():
    text = "# a remark\n\n" + TEXT.replace("    return y\n\ndef two", "    return y\n\n\ndef two")
    found = compare(session(TEXT, *loops()), session(text, *loops(text)))
    assert [(change.how, change.turn) for change in found.findings] == [("moved", "neutral")] * 2
    lines = [(change.old.location.line, change.new.location.line) for change in found.findings]
    assert lines == [(4, 6), (9, 12)]
    assert not found.worse
    assert found.same == 2 and found.turns == ()
    assert "nothing is worse · 2 findings as before (2 moved)" in as_text(found, width=100, color=False)


def test_lines_that_read_alike_pair_in_their_order():
    """The first is gone, the second is still there: it is the second that stays, if it did not move."""
    old = session(TEXT, *loops())
    assert [c.old.location.line for c in compare(old, session(TEXT, loops()[1])).findings] == [4]
    assert [c.old.location.line for c in compare(old, session(TEXT, loops()[0])).findings] == [9]


def test_two_faults_on_one_line_are_told_apart_by_what_they_say():
    of = [finding(TEXT, "0.5", code="GW101", message=f"a wrong gradient of {name}") for name in "xw"]
    found = compare(session(TEXT, *of), session(TEXT, of[1]))
    assert [(change.how, change.old.message) for change in found.findings] == [("gone", "a wrong gradient of x")]


def test_a_new_finding_is_worse_and_a_new_information_is_not():
    old = session(TEXT, loops()[0])
    found = compare(old, session(TEXT, *loops()))
    assert [(c.how, c.turn, c.new.location.line) for c in found.findings] == [("new", "worse", 9)]
    assert found.worse
    told = dataclasses.replace(loops()[1], severity="info")
    found = compare(old, session(TEXT, loops()[0], told))
    assert [(c.how, c.turn) for c in found.findings] == [("new", "neutral")]
    assert not found.worse


def test_other_numbers_in_a_message_are_no_change():
    other = dataclasses.replace(loops()[0], message="a loop over elements: 3,000 operations")
    assert compare(session(TEXT, loops()[0]), session(TEXT, other)).same == 1


@pytest.mark.parametrize(("before", "after", "worse"), [("warning", "error", True), ("error", "info", False)])
def test_a_severity_that_rises_is_worse(before: str, after: str, worse: bool):
    one = loops()[0]
    old, new = (session(TEXT, dataclasses.replace(one, severity=severity)) for severity in (before, after))
    found = compare(old, new)
    assert [(c.how, c.turn) for c in found.findings] == [("severity", "worse" if worse else "better")]
    assert found.worse is worse


def test_an_edited_line_keeps_its_finding_and_another_line_does_not():
    text = TEXT.replace("    return 0.5 * g", "    return 0.5 * g  # half")
    at = {"code": "GW101", "severity": "error"}
    assert kinds(session(TEXT, finding(TEXT, "0.5", **at)), session(text, finding(text, "0.5", **at))) == []
    other = TEXT.replace("    return 0.5 * g", "    grad = g.mean(dim=0, keepdim=True).expand_as(g)")
    changes = kinds(session(TEXT, finding(TEXT, "0.5", **at)), session(other, finding(other, "expand_as", **at)))
    assert sorted(changes) == ["gone", "new"]


def test_a_file_or_a_class_that_was_renamed_keeps_its_findings():
    one = loops()[0]
    moved = dataclasses.replace(one, location=dataclasses.replace(one.location, path="loops.py"))
    assert kinds(session(TEXT, one), session(TEXT, moved, path="loops.py")) == ["moved"]
    renamed = dataclasses.replace(one, subject="trained")
    assert kinds(session(TEXT, one), session(TEXT, renamed)) == ["renamed"]


def test_another_code_at_the_same_place_is_another_finding():
    one = loops()[0]
    assert sorted(kinds(session(TEXT, one), session(TEXT, dataclasses.replace(one, code="GW304")))) == ["gone", "new"]


def test_a_remark_in_the_text_is_no_mending():
    one = loops()[0]
    text = TEXT.replace("for i in range(len(x)):", "for i in range(len(x)):  # gradwright: ignore[GW301]", 1)
    found = compare(session(TEXT, one), session(text, suppressed=(one,)))
    assert [(c.how, c.turn) for c in found.findings] == [("suppressed", "neutral")]
    assert kinds(session(text, suppressed=(one,)), session(TEXT, one)) == ["new"]


def fixed(old: str, new: str) -> tuple[Finding, str]:
    """A finding whose fix replaces that text, and the text with the fix in it."""
    text = TEXT.replace(old, new)
    assert text != TEXT
    diff = "".join(unified("train.py", TEXT.splitlines(keepends=True), text.splitlines(keepends=True)))
    fix = Fix(diff, Proof("verified", ("x",), 0.0, 1e-6, 3))
    return finding(TEXT, "0.5", code="GW101", severity="error", fix=fix), text


def test_a_fix_that_was_made_is_told_from_a_finding_that_is_merely_gone():
    one, mended = fixed("    return 0.5 * g\n", "    return g\n")
    made = compare(session(TEXT, one), session("# moved down\n" + mended))
    assert [(c.how, c.turn, c.fix_made) for c in made.findings] == [("gone", "better", True)]
    deleted = TEXT.replace("def backward(ctx, g):\n    return 0.5 * g\n", "")
    for text in (TEXT, deleted):  # the same text, seen otherwise; the function is gone
        (change,) = compare(session(TEXT, one), session(text)).findings
        assert (change.how, change.fix_made) == ("gone", False)
    indented, mended = fixed("    return 0.5 * g\n", "    scale = 1\n    return scale * g\n")
    half = mended.replace("    scale = 1\n", "")
    assert not compare(session(TEXT, indented), session(half)).findings[0].fix_made
    assert compare(session(TEXT, indented), session(mended)).findings[0].fix_made


def test_a_source_that_is_not_kept_leaves_the_message_to_go_by():
    one, other = loops()
    old, new = (Report(findings=(one,)), Report(findings=(dataclasses.replace(one, location=other.location),)))
    assert kinds(old, new) == ["moved"]
    assert sorted(kinds(old, Report(findings=(dataclasses.replace(one, message="something else"),)))) == ["gone", "new"]
