"""A Function under another name is the same one; what nobody called is not mended."""

from __future__ import annotations

import dataclasses

import pytest
from tests.doctor.render.conftest import Maker

from gradwright.doctor.comparing import compare
from gradwright.doctor.comparing.shown import as_text
from gradwright.doctor.session.model import Finding, NotExamined, Report, ScriptDeath, Source, Subject
from gradwright.doctor.session.place import Location

MAKE = Maker()
TEXT = """\
class {name}(Function):
    @staticmethod
    def forward(ctx, x):
        return x * {factor}

    @staticmethod
    def backward(ctx, g):
        return {name}.half(g)
"""


def finding(name: str, *evidence: str, **fields) -> Finding:
    base = Finding(
        "GW101", "wrong-gradient", "gradient", "error", name, Location("train.py", 8, 9),
        f"{name}.backward returns half the gradient of x", "it does", evidence=evidence,
    )  # fmt: skip
    return dataclasses.replace(base, **fields)


def session(name: str, word: str, *, found: bool = True, factor: int = 2, path: str = "train.py") -> Report:
    verdict = MAKE.verdict(name, "x", "s0", verdict=word)
    text = TEXT.format(name=name, factor=factor)
    return Report(
        subjects=(Subject(f"subject {name}", "function", name, Location(path, 1)),),
        facts=(MAKE.calls(name, 1e-3, 1e-3, forward_calls=4, backward_calls=4), verdict),
        findings=(finding(name, verdict.id, location=Location(path, 8, 9)),) if found else (),
        sources=(Source(path, "0", text),),
    )


def told(old: Report, new: Report) -> list[tuple[str, str, str]]:
    return [(change.turn, change.before, change.after) for change in compare(old, new).gradients]


def test_a_renamed_function_keeps_its_verdict_and_its_finding():
    old, new = session("Half", "wrong"), session("Halb", "wrong")
    found = compare(old, new)
    assert not found.worse and found.gradients == ()
    assert ([change.how for change in found.findings], found.same) == (["renamed"], 1)
    text = as_text(found, width=200, color=False)
    assert "(of Half, which is Halb now)" in text and "->" not in text


def test_a_renamed_function_that_got_worse_is_worse():
    for word, turn in (("right", "worse"), ("unknown", "worse")):
        old, new = session("Half", word, found=False), session("Halb", "wrong", found=False)
        assert [change[0] for change in told(old, new)] == [turn]
    assert told(session("Half", "wrong"), session("Halb", "right", found=False)) == [("better", "WRONG", "right")]


def test_another_name_is_known_by_the_findings_or_by_the_text_alone():
    edited = session("Halb", "wrong", factor=3)
    at = Location("train.py", 7, 5)
    first, last = (
        dataclasses.replace(one, findings=(dataclasses.replace(one.findings[0], location=at),))
        for one in (session("Half", "wrong"), edited)
    )
    assert told(first, last) == []  # the finding is the same one
    old, new = (dataclasses.replace(one, findings=()) for one in (session("Half", "wrong"), session("Halb", "wrong")))
    assert told(old, new) == []  # the text is the same one
    other = dataclasses.replace(edited, findings=())
    assert sorted(turn for turn, _, _ in told(old, other)) == ["neutral", "worse"]  # neither is


def test_two_that_read_alike_are_not_guessed_at():
    old, new = session("Half", "wrong", found=False), session("Halb", "wrong", found=False)
    twin = session("Moitie", "wrong", found=False, path="twin.py")
    both = dataclasses.replace(
        new, subjects=new.subjects + twin.subjects, facts=new.facts + twin.facts, sources=new.sources + twin.sources
    )
    assert sorted(turn for turn, _, _ in told(old, both)) == ["neutral", "worse", "worse"]


@pytest.mark.parametrize("text", ["class Half(:\n", "x = " + "(" * 500, "\0"])
def test_a_text_that_cannot_be_read_tells_nothing(text: str):
    old, new = session("Half", "wrong", found=False), session("Halb", "wrong", found=False)
    spoilt = dataclasses.replace(old, sources=(Source("train.py", "0", text),))
    assert len(told(spoilt, new)) == 2


def test_what_nobody_called_is_not_mended():
    old = session("Half", "wrong")
    uncalled = dataclasses.replace(old, facts=(), findings=())
    listed = dataclasses.replace(uncalled, subjects=(), not_examined=(NotExamined("Half", "no call"),))
    unjudged = dataclasses.replace(old, facts=old.facts[:1], findings=())
    for new in (uncalled, listed, unjudged):
        found = compare(old, new)
        assert [(change.how, change.turn) for change in found.findings] == [("unexamined", "neutral")]
        assert found.worse
        text = as_text(found, width=200, color=False)
        assert "(no longer examined)" in text and "better" not in text


def test_what_was_examined_or_is_out_of_the_text_is_gone():
    old = session("Half", "wrong")
    for new in (session("Half", "right", found=False), Report(sources=(Source("train.py", "0", "x = 1\n"),))):
        assert [(one.how, one.turn) for one in compare(old, new).findings] == [("gone", "better")]


@pytest.mark.parametrize("died", [True, False])
def test_what_a_script_did_not_reach_is_not_mended(died: bool):
    loop = Subject("loop", "loop", "train", Location("train.py", 8))
    old = dataclasses.replace(session("Half", "wrong"), subjects=(loop,))
    old = dataclasses.replace(old, facts=tuple(dataclasses.replace(fact, subject="loop") for fact in old.facts))
    script = dataclasses.replace(old.script, exception=ScriptDeath("ValueError", "m", "t") if died else None)
    new = dataclasses.replace(old, subjects=(), facts=(), findings=(), script=script)
    assert [one.how for one in compare(old, new).findings] == ["unexamined" if died else "gone"]
