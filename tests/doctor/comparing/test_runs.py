"""What two runs had not in common is said, and what only the new one leaves out."""

from __future__ import annotations

import dataclasses

import pytest
from tests.doctor.render.conftest import Maker

from gradwright.doctor.comparing import compare, incomparable
from gradwright.doctor.comparing.shown import as_json, as_text
from gradwright.doctor.session.codec import to_json
from gradwright.doctor.session.model import Environment, NotExamined, Report, Script, ScriptDeath, Source

RUN = Report(
    environment=Environment(gradwright="0.1.0", torch="2.13.0", device="cpu", threads=2, cwd="/home/a/work"),
    script=Script(argv=("train.py", "--epochs", "1"), exit_code=0, steps=40),
)


def but(report: Report = RUN, **fields) -> Report:
    """With other fields of the script or the environment."""
    ours = {field.name for field in dataclasses.fields(Script)}
    script = {name: value for name, value in fields.items() if name in ours}
    environment = {name: value for name, value in fields.items() if name not in ours}
    return dataclasses.replace(
        report,
        script=dataclasses.replace(report.script, **script),
        environment=dataclasses.replace(report.environment, **environment),
    )


def test_runs_that_were_alike_say_nothing():
    assert compare(RUN, RUN).cautions == ()
    assert compare(RUN, but(argv=("/home/b/src/train.py", "--epochs", "1"), cwd="/home/b/src")).cautions == ()


@pytest.mark.parametrize(
    ("new", "word"),
    [
        (but(argv=("train.py", "--epochs", "2")), "other arguments: train.py --epochs 1, then train.py --epochs 2"),
        (but(gradwright="0.2.0"), "another gradwright: 0.1.0, then 0.2.0"),
        (but(torch="2.14.0"), "another torch: 2.13.0, then 2.14.0"),
        (but(threads=8), "another threads: 2, then 8"),
        (but(stopped_early="after 200 steps"), "the new one was stopped after 200 steps"),
        (but(exit_code=1, exception=ScriptDeath("ValueError", "m", "t")), "the new one died of ValueError"),
        (but(exit_code=-9), "the new one was ended by SIGKILL"),
        (but(steps=7), "40 optimizer steps were watched, then 7"),
        (but(rank=1), "they are of two ranks, None and 1"),
    ],
)  # fmt: skip
def test_what_was_not_alike_is_said_and_decides_nothing(new: Report, word: str):
    found = compare(RUN, new)
    assert any(word in caution for caution in found.cautions)
    assert not found.worse


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (but(argv=("other.py",)), "they are of two scripts, train.py and other.py"),
        (but(argv=("deep/train.py",)), "they are of two scripts, train.py and deep/train.py"),
        (Report(), "they are of two scripts, train.py and no script"),
        (but(steps=0, exit_code=1, exception=ScriptDeath("ImportError", "m", "t")), "nothing was watched in the new"),
        (but(steps=0, gradients=1), ""),
        (but(argv=("train.py", "--epochs", "2")), ""),
        (but(argv=("../work/train.py",), cwd="/home/a/elsewhere"), ""),  # the same file
        (but(argv=("train.py",), cwd="/home/b/work"), ""),  # on another machine
    ],
)
def test_sessions_of_which_nothing_can_be_said_are_told(new: Report, why: str):
    told = incomparable(RUN, new)
    assert told.startswith(why) if why else not told


def test_a_script_with_another_name_is_the_same_by_its_text():
    old, new, other = (
        dataclasses.replace(but(argv=(name,)), sources=(Source(name, "0", text),))
        for name, text in (("a.py", "x = 1\n"), ("b.py", "x = 1\n"), ("b.py", "x = 2\n"))
    )
    assert not incomparable(old, new)
    assert incomparable(old, other)


def test_where_nothing_was_watched_before_or_tests_are_the_script_sessions_are_compared():
    nothing = but(steps=0)
    assert not incomparable(nothing, nothing) and not incomparable(nothing, RUN)
    tests = dataclasses.replace(Maker().first_sight(), script=Script())
    assert not incomparable(tests, tests)
    assert incomparable(tests, dataclasses.replace(tests, subjects=(), facts=()))
    assert incomparable(tests, dataclasses.replace(tests, facts=()))  # Functions in the text, no call of them


def test_a_session_that_was_cut_short_is_named():
    cut = dataclasses.replace(RUN, not_examined=(NotExamined("whatever is missing here", "the doctor failed"),))
    assert compare(RUN, cut).cautions == ("the new session does not know whatever is missing here: the doctor failed",)
    assert compare(cut, RUN).cautions == ("the old session does not know whatever is missing here: the doctor failed",)
    assert compare(RUN, cut).unexamined == ()


@pytest.mark.parametrize(
    ("what", "why", "worse"),
    [
        ("second order of Scale", "it has no double backward", True),
        ("second order of Scale", "time limit of one check", False),  # a machine with more to do
        ("the rest of Scale", "the 25 s for trying were used up", False),
        ("3 further calls of Scale", "", False),
        ("second order of Nobody", "", False),
        ("the loops of data.py", "generated code", False),
        ("the gradient of Scale", "", False),  # its verdict tells
    ],
)
def test_what_only_the_new_session_leaves_out(what: str, why: str, worse: bool):
    old = Maker().first_sight()
    old = dataclasses.replace(old, not_examined=())
    new = dataclasses.replace(old, not_examined=(NotExamined(what, why),))
    found = compare(old, new)
    assert [(item.what, item.turn) for item in found.unexamined] == [(what, "worse" if worse else "neutral")]
    assert found.worse is worse
    assert compare(new, new).unexamined == () and not compare(new, old).worse


def test_what_is_printed_tells_all_of_it():
    old = Maker().first_sight()
    new = dataclasses.replace(
        but(old, exit_code=1),
        findings=(dataclasses.replace(old.findings[0], severity="error"),),
        not_examined=(*old.not_examined, NotExamined("second order of MySquare", "no such thing")),
        facts=tuple(fact for fact in old.facts if "Scale w" not in fact.id),
    )
    text = as_text(compare(old, new), width=200, color=False)
    for words in (
        "not alike  the old script exited 0, the new one exited 1",
        "GW301 warning -> error  train.py:18",
        "GW101 error  train.py:42  Scale.backward returns half the gradient of w  (no longer found)",
        "gradient of Scale in w: WRONG -> not examined",
        "no longer examined: second order of MySquare (no such thing)",
        "3 things are worse · 1 better · 0 findings as before",
    ):
        assert words in text
    assert text.index("\nworse\n") < text.index("\nbetter\n")
    assert "\x1b[" in as_text(compare(old, new), width=80, color=True)


def test_the_json_is_the_comparison():
    import json

    old = Maker().first_sight()
    data = json.loads(as_json(compare(old, dataclasses.replace(old, findings=old.findings[:1]))))
    assert data["worse"] is False and data["same"] == 1
    assert set(data) == {"worse", "findings", "gradients", "times", "unexamined", "cautions", "same", "times_gate"}
    (change,) = data["findings"]
    assert change["how"] == "gone" and change["new"] is None
    assert change["old"] == json.loads(to_json(old))["findings"][1]
