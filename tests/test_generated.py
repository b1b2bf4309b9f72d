"""Nothing that is made from something else has drifted from it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.doctor.rules import all_rules

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_every_generated_file_is_what_would_be_generated() -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", [loaded.rule for loaded in all_rules()], ids=lambda rule: rule.code)
def test_every_rule_has_its_line_in_the_changelog(rule) -> None:
    assert f"- New: {rule.code} {rule.name}\n" in CHANGELOG


def test_the_changelog_names_no_code_that_does_not_exist() -> None:
    assert set(re.findall(r"GW\d{3}", CHANGELOG)) == {loaded.rule.code for loaded in all_rules()}
