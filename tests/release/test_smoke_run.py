"""The smoke run on other torches: a step that fails makes it fail, and no public name is without a step."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gradwright as gw

pytestmark = pytest.mark.usefixtures("tools_on_path")


def divide_by_zero() -> None:
    """A step that fails"""
    _ = 1 / 0


def do_nothing() -> None:
    """A step that passes"""


def test_a_step_that_fails_is_named_with_its_place_and_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    import run_smoke
    from smoke_steps.step import describe

    into = io.StringIO()
    code = run_smoke.run_smoke([describe(divide_by_zero), describe(do_nothing)], into)
    faults = {outcome["name"]: outcome["fault"] for outcome in map(json.loads, into.getvalue().splitlines())}
    line = divide_by_zero.__code__.co_firstlineno + 2
    assert code == 1
    assert faults == {
        "A step that fails": f"tests/release/test_smoke_run.py:{line}: ZeroDivisionError: division by zero",
        "A step that passes": "",
    }
    assert "smoke: 1 passed, 1 failed" in capsys.readouterr().out


def test_a_step_that_torch_does_not_allow_is_said_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    import run_smoke
    from smoke_steps.step import NotTried, describe

    def be_stopped() -> None:
        """A step that torch stops"""
        raise NotTried("torch's own schedule fails")

    assert run_smoke.run_smoke([describe(be_stopped), describe(do_nothing)]) == 0
    printed = capsys.readouterr().out
    assert "torch's own schedule fails" in printed and "1 passed, 0 failed, 1 not tried" in printed


def test_steps_that_pass_make_a_run_that_passes() -> None:
    import run_smoke
    from smoke_steps.step import describe

    assert run_smoke.run_smoke([describe(do_nothing)]) == 0
    assert run_smoke.run_smoke([]) == 1  # nothing was tried


def test_the_place_of_a_fault_inside_gradwright_is_the_line_there() -> None:
    from smoke_steps.step import describe, run_steps

    def check_nothing() -> None:
        """check of no tensor"""
        gw.check(len, [])

    (outcome,) = run_steps([describe(check_nothing)])
    assert outcome.fault.startswith("src/gradwright/checking/"), outcome.fault


def test_an_example_that_gives_something_else_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from smoke_steps import doors

    doors.run_examples("gw.reversal_schedule")
    monkeypatch.setattr(gw.reversal_schedule, "__doc__", ">>> reversal_schedule(0.0)\n1.0\n")
    with pytest.raises(AssertionError, match=r"(?s)Expected:\s+1\.0\nGot:\s+0\.0"):
        doors.run_examples("gw.reversal_schedule")


def test_every_public_name_has_a_step() -> None:
    from smoke_steps import all_steps, doors

    names = {step.name for step in all_steps.list_steps()}
    assert doors.find_names_without_step(list(all_steps.ROOMS)) == []
    assert {f"{name}: its examples" for name in doors.list_names()} <= names
    assert len(doors.list_names()) > 150


def test_a_public_name_without_a_step_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from smoke_steps import all_steps, doors

    monkeypatch.setattr(gw, "newcomer", lambda x: x, raising=False)
    monkeypatch.setattr(gw, "__all__", [*vars(gw)["__all__"], "newcomer"])
    assert doors.find_names_without_step(list(all_steps.ROOMS)) == ["gw.newcomer"]


def test_a_run_that_dies_is_shown_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import compare_torches
    from smoke_steps.step import Outcome

    runs = {
        "newest": compare_torches.Run("newest 9.9", {"one": Outcome("one", 0.1)}, -11, "Segmentation fault"),
        "oldest": compare_torches.Run("oldest 1.0", {n: Outcome(n, 0.1) for n in ("one", "two")}, 0, ""),
    }
    monkeypatch.setattr(compare_torches, "run_with", runs.__getitem__)
    monkeypatch.setattr(sys, "argv", ["compare_torches.py"])
    assert compare_torches.main() == 1
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines() if line.startswith("two")] == [
        ["two", "not", "run", "passed"]
    ]
    assert "newest 9.9 ended with -11" in printed


def test_what_is_asked_for_becomes_a_version() -> None:
    from torch_environment.environment import ROOT, find_version, read_lower_bound

    assert find_version("2.10.0") == "2.10.0"
    assert find_version("oldest") == read_lower_bound((ROOT / "pyproject.toml").read_text("utf-8"))


def test_a_python_beside_the_one_that_runs_this_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose home it is in, and whether that is HOME, does not matter."""
    from torch_environment.pythons import find_python

    beside = tmp_path / "versions" / "9.8.7" / "bin" / "python9.8"
    beside.parent.mkdir(parents=True)
    beside.write_text("#!/bin/sh\n")
    beside.chmod(0o755)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "versions" / "3.11.7"))
    assert find_python("9.8", tmp_path) == beside


def test_the_stub_libraries_have_what_a_library_needs(tmp_path: Path) -> None:
    """A library that uses one absent library's symbol of a version, and another's of none, can be loaded."""
    import ctypes
    import shutil
    import subprocess

    from torch_environment.stub_libraries import compile_stub, write_stub_libraries

    if not all(map(shutil.which, ("gcc", "nm", "readelf"))):
        pytest.skip("no gcc or binutils here")
    absent = [
        compile_stub(tmp_path / name, symbols)
        for name, symbols in (("libcuda_one.so.1", {"ONE_1": ["cuOne"]}), ("libnccl_two.so", {"": ["ncclTwo"]}))
    ]
    source = tmp_path / "user.c"
    source.write_text("long cuOne(void); long ncclTwo(void); long both(void) { return cuOne() + ncclTwo(); }")
    library = tmp_path / "libuser.so"
    words = ["gcc", "-shared", "-fPIC", "-Wl,--disable-new-dtags,-rpath,$ORIGIN", "-o", library, source, *absent]
    subprocess.run(words, check=True)
    for each in absent:
        each.unlink()
    with pytest.raises(OSError, match="cannot open shared object file"):
        ctypes.CDLL(str(library))
    assert [each.name for each in write_stub_libraries(tmp_path)] == ["libcuda_one.so.1", "libnccl_two.so"]
    assert ctypes.CDLL(str(library)).both() == 200


@pytest.mark.parametrize(
    "module", ["torch_environment.stub_libraries", "torch_environment.environment", "smoke_steps.doors"]
)
def test_the_examples_of_the_tools_hold(module: str) -> None:
    import doctest
    import importlib

    loaded: ModuleType = importlib.import_module(module)
    tried = doctest.testmod(loaded)
    assert tried.attempted and not tried.failed
