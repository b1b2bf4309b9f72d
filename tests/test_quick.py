"""`make quick` chooses tests by what has changed: the nearest first, as far as the time allows."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUICK = runpy.run_path(str(ROOT / "tools" / "quick.py"))
MASKS = "src/gradwright/ground/masks.py"


def test_a_module_is_as_far_from_a_change_as_there_are_imports_between() -> None:
    ranks = QUICK["rank_modules"]([MASKS])
    assert ranks["gradwright.ground.masks"] == 0
    assert ranks["gradwright.doctor.source.masks"] == 1
    assert max(ranks.values()) > 1
    assert "gradwright.errors" not in ranks  # imports nothing of ours


def test_a_changed_modules_own_tests_come_first_then_its_rooms_then_who_imports_it() -> None:
    files = ["tests/ground/test_masks.py", "tests/ground/test_hooks.py", "tests/doctor/source/test_loops.py"]
    ranks = QUICK["rank_tests"]([MASKS], [*files, "tests/test_errors.py"])
    assert [ranks[file] for file in files] == [0, 0.5, 1.5]
    assert ranks[MASKS] == -1, "its examples"
    assert "tests/test_errors.py" not in ranks


@pytest.mark.parametrize(
    ("changed", "file"),
    [
        ("tests/ground/test_hooks.py", "tests/ground/test_hooks.py"),
        ("tests/losses/table.py", "tests/losses/test_laws.py"),
        ("tests/losses/table.py", "tests/losses/regression/test_huber.py"),
        ("docs/index.md", "tests/docs/test_links.py"),
        ("corpora/derived/losses.py", "tests/functions/derive/test_sixty_forwards.py"),
    ],
)
def test_what_is_no_module_has_its_tests_too(changed: str, file: str) -> None:
    assert QUICK["rank_tests"]([changed], [file, "tests/ground/test_tensors.py"]) == {file: -1}


def test_what_the_time_allows_is_chosen_in_order_and_the_rest_is_told() -> None:
    ranks = {"far": 2.0, "slow": 1.0, "quick": 1.0, "changed": -1.0}
    choice = QUICK["choose"](ranks, {"far": 1.0, "slow": 50.0, "quick": 2.0, "changed": 30.0}, 40.0)
    assert choice.chosen == ["changed", "quick"]
    assert choice.left_out == ["slow", "far"]


def test_forty_runs_of_the_doctor_hold_those_of_a_changed_rule_and_no_slow_one() -> None:
    changed = ["tests/cases/GW601/bad.py", "src/gradwright/doctor/rules/speed/anomaly_mode_left_on.py"]
    (code,) = QUICK["_codes_of"](changed[1])
    slow = {f"{QUICK['CASE']}[GW101]"}
    runs = QUICK["doctor_runs"](changed, slow)
    assert len(runs) == len(set(runs)) == 40
    assert runs[:2] == [f"{QUICK['CASE']}[GW601]", f"{QUICK['CASE']}[{code}]"] and not slow & set(runs)


def test_each_of_the_runs_is_a_test() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *QUICK["doctor_runs"]([], ())],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert "40 tests collected" in done.stdout, done.stdout + done.stderr


def test_every_kind_of_file_that_has_tests_names_some_that_exist() -> None:
    named = [name for names in QUICK["OTHERS"].values() for name in names]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_it_lists_without_running_anything() -> None:
    done = subprocess.run(
        [sys.executable, "tools/quick.py", "--list", "--since", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "40 runs of the doctor" in done.stdout


def test_an_unknown_commit_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "tools/quick.py", "--since", "no-such-commit"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no-such-commit" in done.stderr and "Traceback" not in done.stderr
