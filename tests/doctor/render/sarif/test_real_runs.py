"""Sessions of real runs, as they come from the doctor."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gradwright.doctor.explain import page_of
from gradwright.doctor.mending.combining import plan
from gradwright.doctor.render import render
from gradwright.doctor.session.codec import to_json

CASES = Path(__file__).parents[3] / "cases"


@pytest.mark.parametrize("code", ["GW101", "GW301", "GW901"])
def test_a_case_becomes_a_valid_log_whose_fixes_make_what_gradwright_fix_makes(code, run, run_of, tmp_path: Path):
    script = tmp_path / "my train.py"
    script.write_bytes((CASES / code / "bad.py").read_bytes().replace(b"\n", b"\r\n"))
    report = run(script).report
    report = replace(report, environment=replace(report.environment, cwd=str(tmp_path)))
    log = run_of(report, pages=page_of)
    assert code in [result["ruleId"] for result in log["results"]]
    (rule,) = (rule for rule in log["tool"]["driver"]["rules"] if rule["id"] == code)
    assert "## What it finds" in rule["help"]["markdown"]
    marks = [result["partialFingerprints"]["gradwright/v1"] for result in log["results"]]
    assert len(set(marks)) == len(marks) == len(report.findings)
    text = importlib.util.decode_source(script.read_bytes())
    for result in log["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "my%20train.py"
        assert place["region"]["snippet"]["text"] in text
    by_place = sorted(report.findings, key=lambda one: (one.location.line, one.location.column, one.code))
    for result, finding in zip(log["results"], by_place, strict=True):
        assert result["ruleId"] == finding.code
        made = plan([finding], report, here=tmp_path, unsafe=False, outside=False).files
        assert ["fixes" in result] == [bool(made)]
        for file in made:
            (change,) = result["fixes"][0]["artifactChanges"]
            assert _replaced(file.old.decode(), change["replacements"]) == file.new.decode()
    assert any("fixes" in result for result in log["results"]) is (code in ("GW101", "GW301"))


def test_the_command_gives_the_pages_of_the_rules_and_the_door_gives_none(make, tmp_path: Path):
    (tmp_path / "s.json").write_text(to_json(make.first_sight()))
    words = [sys.executable, "-m", "gradwright", "report", "s.json", "--format", "sarif"]
    printed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False).stdout
    assert printed == render(make.first_sight(), "sarif", pages=page_of) != render(make.first_sight(), "sarif")


def _replaced(text: str, replacements: list[dict]) -> str:
    """Of a file of ASCII in which only whole lines are replaced."""
    lines = text.splitlines(keepends=True)
    for item in reversed(replacements):
        place = item["deletedRegion"]
        assert place["startColumn"] == place["endColumn"] == 1
        lines[place["startLine"] - 1 : place["endLine"] - 1] = [item["insertedContent"]["text"]]
    return "".join(lines)
