"""The log: valid, the same for the same session, and true to it."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace

import pytest

from gradwright.doctor.explain import page_of
from gradwright.doctor.render.sarif import render
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.hunks import unified
from gradwright.doctor.session.model import (
    MISSING,
    Candidate,
    Environment,
    Fix,
    NotExamined,
    Proof,
    Report,
    Script,
    ScriptDeath,
)
from gradwright.doctor.session.place import Location

HERE = Environment(gradwright="0.1.0", python="3.11.7", torch="2.13.0", cwd="/home/ann/work/")


def test_a_report_of_nothing_is_a_valid_log(run_of):
    run = run_of(Report())
    assert run["results"] == run["artifacts"] == run["tool"]["driver"]["rules"] == []
    assert "originalUriBaseIds" not in run and "automationDetails" not in run


def test_findings_are_results_of_rules_at_their_places(make, run_of):
    run = run_of(replace(make.first_sight(), environment=HERE))
    loop, scale = run["results"]
    assert (loop["ruleId"], loop["level"], scale["ruleId"], scale["level"]) == ("GW301", "warning", "GW101", "error")
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["GW101", "GW301"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert rules[1]["defaultConfiguration"] == {"level": "warning"} and rules[1]["properties"] == {"tags": ["speed"]}
    place = scale["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT", "index": 0}
    assert place["region"] == {
        "startLine": 42, "startColumn": 27, "endLine": 42, "endColumn": 42, "snippet": {"text": "0.5 * x.t() @ g"},
    }  # fmt: skip
    assert place["contextRegion"]["startLine"] == 40 and place["contextRegion"]["endLine"] == 42
    assert scale["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "Scale"}]
    assert loop["relatedLocations"][0]["message"] == {"text": "once per element"}
    assert loop["relatedLocations"][0]["physicalLocation"]["region"]["snippet"] == {"text": "grad_x[row, col]"}
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": "file:///home/ann/work/"}}
    assert run["artifacts"][0]["hashes"] == {"sha-256": make.source().sha256}
    assert run["automationDetails"] == {"id": "gradwright/train.py/"}
    assert run["tool"]["driver"]["version"] == "0.1.0"
    assert run["properties"]["environment"]["torch"] == "2.13.0" and "cwd" not in run["properties"]["environment"]


def test_the_message_says_first_what_is_wrong_and_then_what_else_is_known(make, run_of):
    proof = Proof("verified", ("x",), 0.0, 1e-6, 0)
    fixed, tried, suggested = (
        make.finding(hints=("write it as one expression",), fix=Fix("", proof, "it rounds otherwise at 0")),
        make.finding(location=Location("train.py", 19), candidates=(Candidate("loop", "-a\n+b", "differs at x = 0"),)),
        make.finding(location=Location("train.py", 20), candidates=(Candidate("loop", "-a\n+b"),)),
    )
    run = run_of(Report(findings=(fixed, tried, suggested)))
    texts = [result["message"]["text"].split("\n") for result in run["results"]]
    assert texts[0] == [
        f"{fixed.message}.",
        f"Why: {fixed.why}.",
        "Do: write it as one expression.",
        "A fix is there, verified on 1 input, worst difference 0.",
        "Unsafe: it rounds otherwise at 0.",
    ]
    assert texts[1][-1] == "Loop was tried and is no fix: differs at x = 0."
    assert texts[2][-1] == "A change is suggested that is not verified: read it before it is used."
    assert run["results"][0]["properties"]["proof"]["verdict"] == "verified"
    assert run["results"][2]["properties"]["suggestion"] == "-a\n+b"


def test_a_place_that_is_the_findings_own_or_not_known_is_no_other_one(make, run_of):
    places = (make.at, Location("train.py", 0), Location("train.py", 20))
    loops = tuple(make.loop(id=f"loop {at}", hot=place, per_element=False) for at, place in enumerate(places))
    report = Report(findings=(make.finding(evidence=tuple(loop.id for loop in loops)),), facts=loops)
    (related,) = run_of(report)["results"][0]["relatedLocations"]
    assert related["message"] == {"text": "in each of 1,000 iterations"}
    assert related["physicalLocation"]["region"] == {"startLine": 20}


def test_information_is_a_note(make, run_of):
    (result,) = run_of(Report(findings=(make.finding(severity="info"),)))["results"]
    assert result["level"] == "note"


def test_the_same_session_gives_the_same_text_and_so_does_another_order(make):
    report = make.first_sight()
    turned = replace(report, findings=report.findings[::-1], sources=report.sources[::-1])
    assert render(report) == render(report) == render(turned)


def test_a_rule_is_told_by_its_page_where_there_are_pages(make, run_of):
    report = make.first_sight()
    told, alone = (run_of(report, **options)["tool"]["driver"]["rules"][1] for options in ({"pages": page_of}, {}))
    assert told["fullDescription"]["text"].startswith("A Python loop, ")
    assert len(told["fullDescription"]["text"]) <= 1024
    assert "## Why it matters" in told["help"]["markdown"] and "What it finds" in told["help"]["text"]
    assert alone["help"] == {"text": "gradwright explain GW301 says more."}
    assert alone["shortDescription"] == told["shortDescription"] == {"text": "Python loop over elements."}


@pytest.mark.parametrize("suppressed", [True, False])
def test_what_a_comment_holds_back_is_there_and_marked_so(make, run_of, suppressed: bool):
    quiet = (make.finding(location=Location("train.py", 30)),) if suppressed else ()
    run = run_of(replace(make.first_sight(), suppressed=quiet))
    assert [result.get("suppressions") for result in run["results"]] == (
        [[], [{"kind": "inSource"}], []] if suppressed else [None, None]
    )


# --- the run ---------------------------------------------------------------------------------------------------------


def test_the_invocation_is_the_scripts_own(make, run_of):
    report = Report(
        environment=HERE, script=Script(argv=("my train.py", "--lr", "1 e"), exit_code=3, seconds=2.5, rank=1)
    )
    (invocation,) = run_of(report)["invocations"]
    assert invocation["commandLine"] == "'my train.py' --lr '1 e'"
    assert invocation["arguments"] == ["my train.py", "--lr", "1 e"]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (3, True)
    assert invocation["workingDirectory"] == {"uri": "file:///home/ann/work/"}
    assert invocation["properties"]["rank"] == 1


def test_a_script_that_a_signal_ended_has_no_exit_code(run_of):
    (invocation,) = run_of(Report(script=Script(argv=("a.py",), exit_code=-9)))["invocations"]
    assert (invocation["exitSignalNumber"], invocation["exitSignalName"]) == (9, "SIGKILL")
    assert "exitCode" not in invocation


def test_what_was_not_examined_is_notified_and_a_run_cut_short_is_no_success(run_of):
    report = Report(not_examined=(NotExamined("loops in data.py", "generated"), NotExamined(MISSING, "killed")))
    (invocation,) = run_of(report)["invocations"]
    assert [(one["level"], one["message"]["text"]) for one in invocation["toolExecutionNotifications"]] == [
        ("note", "Not examined: loops in data.py: generated"),
        ("error", "Not examined: whatever is missing here: killed"),
    ]
    assert invocation["executionSuccessful"] is False


def test_the_scripts_death_is_told_with_its_place_and_the_finding_that_rests_on_it_points_there(make, run_of):
    at = Location("train.py", 19, 17, 19, 33)
    report = replace(
        make.first_sight(),
        script=replace(make.script, exit_code=1, exception=ScriptDeath("ValueError", "no", "", at)),
        facts=(ScriptDied(id="died", subject="script", type="ValueError", message="no", location=at),),
        findings=(make.finding(evidence=("died",)),),
    )
    run = run_of(report)
    (death,) = (one for one in run["invocations"][0]["toolExecutionNotifications"] if one["level"] == "warning")
    assert death["exception"] == {"kind": "ValueError", "message": "no"}
    assert death["locations"][0]["physicalLocation"]["region"]["startLine"] == 19
    (related,) = run["results"][0]["relatedLocations"]
    assert related["message"] == {"text": "it came to light here"}
    assert run["invocations"][0]["executionSuccessful"] is True


# --- hostile text ----------------------------------------------------------------------------------------------------

EVIL = "</script>\x00\x1b[31m\ud800\udcff\n::error::\u202e{0} [a](1) \"'\\ 🙂" + "é" * 300


def test_whatever_the_users_names_are_the_log_is_valid_text(make, run_of):
    at = Location(EVIL, 1, 3, 1, 9)
    report = Report(
        environment=replace(HERE, cwd=f"/{EVIL}"),
        script=Script(argv=(EVIL, EVIL), exit_code=1, exception=ScriptDeath(EVIL, EVIL, EVIL, at)),
        sources=(make.source(EVIL, EVIL),),
        subjects=(make.subject(EVIL),),
        findings=(
            make.finding(
                message=EVIL, why=EVIL, hints=(EVIL,), subject=EVIL, location=at, name=EVIL,
                fix=Fix(EVIL, Proof("proved", (EVIL,), float("nan"), float("inf"), 0, certificate=EVIL), EVIL),
            ),
        ),
        suppressed=(make.finding(location=Location(EVIL, -3, -1, 0, -9), code=EVIL, message=""),),
        not_examined=(NotExamined(EVIL, EVIL),),
    )  # fmt: skip
    run = run_of(report, pages=lambda code: EVIL)
    render(report).encode("utf-8")
    for location in re.findall(r'"uri": "([^"]*)"', render(report)):
        assert re.fullmatch(r"(?:[A-Za-z0-9\-._~/:]|%[0-9A-F]{2})+", location)
    text = run["results"][1]["message"]["text"]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text) and r"\[a](1)" in text


def test_a_bracket_before_a_parenthesis_is_no_link(make, run_of):
    (result,) = run_of(Report(findings=(make.finding(message="grads[i](1), x[0] and (y)"),)))["results"]
    assert result["message"]["text"].startswith(r"grads\[i](1), x[0] and (y).")


# --- the schema itself -----------------------------------------------------------------------------------------------

PLANTED = {
    "a level that there is none of": lambda run: run["results"][0].update(level="fatal"),
    "a line before the first": lambda run: _region(run).update(startLine=0),
    "a column before the first": lambda run: _region(run).update(startColumn=0),
    "a result without a message": lambda run: run["results"][0].pop("message"),
    "a word that SARIF has not": lambda run: run["results"][0].update(severity="error"),
    "a kind of suppression that there is none of": lambda run: run["results"][0].update(suppressions=[{"kind": "x"}]),
    "columns of a third kind": lambda run: run.update(columnKind="bytes"),
    "a fix that changes nothing": lambda run: run["results"][1].update(fixes=[{"artifactChanges": []}]),
    "a replacement of no place": lambda run: _change(run)["replacements"][0].pop("deletedRegion"),
    "an index that is none": lambda run: run["results"][0].update(ruleIndex=-2),
    "a hash that is no text": lambda run: run["artifacts"][0]["hashes"].update({"sha-256": 7}),
    "an invocation that does not say how it went": lambda run: run["invocations"][0].pop("executionSuccessful"),
    "a tool without a name": lambda run: run["tool"]["driver"].pop("name"),
    "a message that is no object": lambda run: run["results"][0].update(message="text"),
    "a fingerprint that is no text": lambda run: run["results"][0]["partialFingerprints"].update({"gradwright/v1": 1}),
}


def _region(run: dict) -> dict:
    return run["results"][0]["locations"][0]["physicalLocation"]["region"]


def _change(run: dict) -> dict:
    return run["results"][0]["fixes"][0]["artifactChanges"][0]


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_the_schema_rejects_a_planted_fault(make, faults_of, plant):
    report = make.first_sight()
    lines = report.sources[0].text.splitlines(keepends=True)
    diff = "".join(unified("train.py", lines, [*lines[:16], "        grad_x = 2 * x\n", *lines[19:]]))
    fixed = replace(report.findings[0], fix=replace(report.findings[0].fix, diff=diff))
    log = json.loads(render(replace(report, findings=(fixed, report.findings[1]))))
    assert faults_of(log) == []
    faulty = copy.deepcopy(log)
    plant(faulty["runs"][0])
    assert faults_of(faulty) != []
