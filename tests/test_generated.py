"""Nothing that is made from something else has drifted from it."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.doctor.rules import all_rules

ROOT = Path(__file__).parents[1]
GENERATE = runpy.run_path(str(ROOT / "tools" / "generate.py"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_every_generated_file_is_what_would_be_generated() -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "late",
    [
        " · not examined: second order of F: time limit of one check\n",
        "\nnot examined: second order of F: time limit of one check\n",
        " · not examined:\n  second order of F: time limit of one check\n  batches of F: time limit of one check\n",
        "\nnot examined:\n  second order of a long name: time limit\n    of one check\n",
    ],
)
def test_what_a_busy_machine_leaves_out_is_no_drift_of_the_readme(late: str) -> None:
    told = "SlowCube  right\ngradwright fix train.py shows them"
    assert GENERATE["_without_times"](told + late + "```") == GENERATE["_without_times"](told + "\n```")


def test_what_was_not_examined_for_another_reason_is() -> None:
    told = "SlowCube  right"
    assert GENERATE["_without_times"](told + " · not examined: F: it crashed\n```") != GENERATE["_without_times"](told)


@pytest.mark.parametrize("rule", [loaded.rule for loaded in all_rules()], ids=lambda rule: rule.code)
def test_every_rule_has_its_line_in_the_changelog(rule) -> None:
    assert f"- New: {rule.code} {rule.name}\n" in CHANGELOG


def test_the_changelog_names_no_code_that_does_not_exist() -> None:
    assert set(re.findall(r"GW\d{3}", CHANGELOG)) == {loaded.rule.code for loaded in all_rules()}
