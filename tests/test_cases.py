"""Each rule's case: the bad script has the finding, the good one has none; and so have all their variants."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.variants import VARIANTS

from gradwright.doctor.rules import all_rules

HERE = Path(__file__).parent

ALL = sorted(path.name for path in (HERE / "cases").iterdir())
TOLD_BY_THE_LIBRARY = sorted(loaded.rule.code for loaded in all_rules() if loaded.rule.told_by)
CASES = [code for code in ALL if code not in TOLD_BY_THE_LIBRARY]
WITH_ITS_FIX = {"GW304", "GW310"}  # found by the fix that it has: told only where there is time for one
ON_A_GPU = {"GW317"}  # where there is none, the tensors of the CPU stand in for its


def test_every_rule_has_a_case_and_every_case_a_rule():
    assert [loaded.rule.code for loaded in all_rules()] == ALL


@pytest.mark.parametrize("code", TOLD_BY_THE_LIBRARY)
def test_what_the_library_tells_is_printed_by_the_bad_script_and_not_by_the_good_one(code: str, capsys) -> None:
    said = {}
    for kind in ("bad", "good"):
        runpy.run_path(str(HERE / "cases" / code / f"{kind}.py"), run_name="__main__")
        said[kind] = capsys.readouterr().out
    assert code in said["bad"]
    assert f"{code} " not in "".join(line for line in said["good"].splitlines(True) if "(info)" not in line)


@pytest.mark.parametrize("code", CASES)
def test_the_bad_script_has_the_finding_and_looks_like_its_golden(
    code: str, run: Callable, shown: Callable, golden: Callable
) -> None:
    bad = HERE / "cases" / code / "bad.py"
    ran = run(bad, **_where(code))
    assert code in ran.codes
    golden(shown(ran.report), bad.with_name("bad.golden.txt"))


@pytest.mark.parametrize("code", CASES)
def test_the_good_script_is_clean(code: str, run: Callable) -> None:
    ran = run(HERE / "cases" / code / "good.py", **_seconds(code), **_where(code))
    assert ran.faults == []
    assert code not in ran.codes
    assert ran.report.script.exit_code == 0


def in_turn(first: int) -> list:
    """Each case with one of the variants, in turn: every variant meets many cases, and no case meets all.

    All of them together took a third of the test command.
    """
    names = list(VARIANTS)
    return [(code, names[(number + first) % len(names)]) for number, code in enumerate(CASES)]


@pytest.mark.parametrize(("code", "variant"), in_turn(0))
def test_a_variant_has_the_same_findings_and_a_fix_where_the_case_has_one(
    code: str, variant: str, run: Callable, tmp_path: Path
) -> None:
    bad = HERE / "cases" / code / "bad.py"
    has_a_fix = re.search("verified|proved", bad.with_name("bad.golden.txt").read_text())
    written = VARIANTS[variant](bad.read_text())
    ran = run(
        written.write(tmp_path),
        *written.arguments,
        cwd=tmp_path,
        module=written.module,
        **({} if has_a_fix else _seconds(code)),
        **_where(code),
    )
    assert told(ran, code) == told(run(bad, **_where(code)), code) != [], ran.stderr
    if has_a_fix:
        found = [(finding.code, finding.message, finding.hints, finding.candidates) for finding in ran.report.findings]
        assert any(finding.fix for finding in ran.report.findings), (found, ran.stderr)


@pytest.mark.parametrize(("code", "variant"), in_turn(3))
def test_a_variant_of_the_good_script_is_clean(code: str, variant: str, run: Callable, tmp_path: Path) -> None:
    written = VARIANTS[variant]((HERE / "cases" / code / "good.py").read_text())
    ran = run(
        written.write(tmp_path),
        *written.arguments,
        cwd=tmp_path,
        module=written.module,
        **_seconds(code),
        **_where(code),
    )
    assert ran.faults == [], ran.stderr


def _seconds(code: str) -> dict[str, float]:
    """No time for fixes, where a finding needs none: most of a run is the search for them."""
    return {} if code in WITH_ITS_FIX else {"fix_seconds": 0.0}


def _where(code: str) -> dict[str, bool]:
    return {"on_gpu": True} if code in ON_A_GPU else {}


def told(ran, code: str) -> list[tuple[str, str]]:
    """Codes and severities; information, which may hang on a stopwatch, where it is what the case is about."""
    return sorted(
        (finding.code, finding.severity)
        for finding in ran.report.findings
        if finding.severity != "info" or finding.code == code
    )
