"""`make gpu`: whatever fails, hangs or dies, the rest is done and each result kept; what comes back is taken over."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("tools_on_path")

ROOT = Path(__file__).parents[2]
#: A child as `children` wants it: what a name begins with is what becomes of it.
CHILD = """
    import json, os, signal, sys, time
    events, names = sys.argv[1], sys.argv[2:]

    def hang():
        with open(events + ".hangs", "w") as stream:
            stream.write(str(os.getpid()))
        time.sleep(600)

    def tell(**event):
        with open(events, "a") as stream:
            print(json.dumps(event), file=stream)

    if names == ["list"]:
        names = ["good", "bad", "last"]
        tell(event="listed", names=names)
    for name in names:
        if name.startswith("late"):
            hang()
        tell(event="began", name=name)
        if name.startswith("dies"):
            print("about to die", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if name.startswith("hangs"):
            hang()
        outcome = "failed" if name.startswith("bad") else "passed"
        tell(event="ended", name=name, outcome=outcome, seconds=0.1, why="", traceback="", data={"pid": os.getpid()})
"""


def run_children(tmp_path: Path, names: Sequence[str] | None) -> list[Any]:
    """By a clock that leaps at each look while a child hangs, so that a busy machine is no reason to end one."""
    from gpu.children import Limits, run_in_children

    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))

    def command(left: Sequence[str] | None, events: Path) -> list[str]:
        return [sys.executable, "-S", str(script), str(events), *(["list"] if left is None else left)]

    leapt = 0

    def clock() -> float:
        nonlocal leapt
        leapt += sum(Path("/proc", path.read_text()).exists() for path in tmp_path.glob("*.hangs"))
        return time.monotonic() + 10_000 * leapt

    limits = Limits(deadline=1e12, start=5000, each=5000)
    return list(run_in_children("step", command, names, limits, tmp_path, lambda printed: None, {}, clock))


def test_what_dies_or_hangs_is_named_and_another_process_does_the_rest(tmp_path: Path) -> None:
    names = ["good 1", "dies", "good 2", "hangs", "bad", "good 3"]
    found = {result.name: result for result in run_children(tmp_path, names)}
    assert {name: result.outcome for name, result in found.items()} == {
        "good 1": "passed", "dies": "died", "good 2": "passed", "hangs": "hung", "bad": "failed", "good 3": "passed",
    }  # fmt: skip
    assert "SIGSEGV" in found["dies"].why and found["dies"].traceback.strip() == "about to die"
    assert "not over after 5000 s" in found["hangs"].why
    pids = [found[name].data["pid"] for name in ("good 1", "good 2", "good 3")]
    assert len(set(pids)) == 3 and found["bad"].data["pid"] == pids[2]


def test_a_process_that_never_begins_ends_the_step_and_says_so(tmp_path: Path) -> None:
    found = run_children(tmp_path, ["late 1", "late 2"])
    assert [(result.name, result.outcome) for result in found] == [("late 1", "not run"), ("late 2", "not run")]
    assert "ended before it began" in found[0].why


def test_a_child_may_say_itself_what_there_is_to_do(tmp_path: Path) -> None:
    assert [(result.name, result.outcome) for result in run_children(tmp_path, None)] == [
        ("good", "passed"),
        ("bad", "failed"),
        ("last", "passed"),
    ]


def test_what_there_is_no_time_for_is_not_run(tmp_path: Path) -> None:
    from gpu.children import Limits, run_in_children

    command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    limits = Limits(time.monotonic() + 0.5, 30, 30)
    found = run_in_children("step", lambda *_: command, ["one", "two"], limits, tmp_path, lambda printed: None, {})
    assert [(result.name, result.outcome) for result in found] == [("one", "not run"), ("two", "not run")]


def test_each_result_is_on_disk_before_the_next_is_made_and_a_step_that_fails_stops_none(tmp_path: Path) -> None:
    from gpu.failures import write_failures
    from gpu.results import Result, ResultFolder, read_results
    from gpu.setting import Setting
    from gpu.steps import Step
    from run_gpu import run_steps

    folder = tmp_path / "results"
    seen: list[list[str]] = []

    def yield_two(setting: Setting, seconds: float) -> Iterator[Result]:
        yield Result("first", "one", "passed")
        seen.append([result.name for result in read_results(folder)])
        yield Result("first", "two", "failed", why="of a reason", traceback="a line\nof code")
        raise RuntimeError("a fault of ours")

    def yield_one(setting: Setting, seconds: float) -> Iterator[Result]:
        yield Result("second", "three", "passed")

    setting = Setting("cpu", ResultFolder(folder), time.monotonic(), tmp_path)
    results = run_steps([Step("first", 1, yield_two), Step("second", 1, yield_one)], setting)
    assert seen == [["one"]]
    assert list(read_results(folder)) == results
    assert [(result.name, result.outcome) for result in results] == [
        ("one", "passed"), ("two", "failed"), ("first", "failed"), ("three", "passed"),
    ]  # fmt: skip
    write_failures(results, folder)
    said = (folder / "failures.txt").read_text()
    assert said.startswith("2 of 4 failed or were not run\n") and "a line\nof code" in said
    assert "a fault of ours" in said and "three" not in said


def test_a_last_line_that_was_cut_off_loses_no_other(tmp_path: Path) -> None:
    from gpu.results import Result, ResultFolder, read_results

    folder = ResultFolder(tmp_path)
    folder.add(Result("tests", "one", "passed"))
    with (tmp_path / "results.jsonl").open("a") as stream:
        stream.write('{"step": "tests", "na')
    assert [result.name for result in read_results(tmp_path)] == ["one"]


def run_pytest(tmp_path: Path, only: Sequence[str], **files: str) -> tuple[list[Any], str]:
    """Events of a run with the plugin, and what was printed."""
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    (tmp_path / "only").write_text("".join(f"{name}\n" for name in only))
    names = {"GRADWRIGHT_EVENTS": str(tmp_path / "events"), "GRADWRIGHT_ONLY": str(tmp_path / "only") if only else ""}
    words = ["-q", "-p", "gpu.pytest_events", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--rootdir", tmp_path, "-c", "/dev/null", *(f"{n}.py" for n in files)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "tools"), **names},
        capture_output=True,
        text=True,
    )
    return [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()], done.stdout + done.stderr


def test_the_plugin_tells_of_every_test(tmp_path: Path) -> None:
    some = """
        import pytest

        def test_good(): pass
        def test_bad(): assert 1 == 2, "one is not two"
        def test_absent(): pytest.skip("no such thing")
        def test_not_asked(): raise RuntimeError

        @pytest.fixture
        def broken(): raise ValueError("of the fixture")
        def test_behind(broken): pass
    """
    only = [f"test_some.py::test_{name}" for name in ("good", "bad", "absent", "behind")]
    events, printed = run_pytest(tmp_path, only, test_some=some, test_broken="import no_such_module\n")
    ended = {event["name"]: event for event in events if event["event"] == "ended"}
    assert {name: event["outcome"] for name, event in ended.items()} == {
        "test_broken.py": "failed", "test_some.py::test_good": "passed", "test_some.py::test_bad": "failed",
        "test_some.py::test_absent": "skipped", "test_some.py::test_behind": "failed",
    }, printed  # fmt: skip
    assert ended["test_some.py::test_absent"]["why"] == "no such thing"
    assert "one is not two" in ended["test_some.py::test_bad"]["why"]
    assert "of the fixture" in ended["test_some.py::test_behind"]["why"]
    assert "no_such_module" in ended["test_broken.py"]["traceback"]
    (listed,) = [event["names"] for event in events if event["event"] == "listed"]
    assert len(listed) == 4
    began = [event["name"] for event in events if event["event"] == "began"]
    assert sorted(began) == sorted(listed)


def test_a_process_whose_device_is_lost_leaves_the_rest_to_another(tmp_path: Path) -> None:
    some = """
        import sys
        import types

        def lose():
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        cuda = types.SimpleNamespace(is_initialized=lambda: True, synchronize=lambda: None)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)

        def test_fails(): assert 1 == 2
        def test_loses():
            cuda.synchronize = lose
            assert 1 == 2
        def test_behind(): pass
    """
    events, printed = run_pytest(tmp_path, [], test_some=some)
    began = [event["name"].partition("::")[2] for event in events if event["event"] == "began"]
    assert began == ["test_fails", "test_loses"], printed
    assert events[-1]["event"] == "ended" and events[-1]["outcome"] == "failed"


# --- make gpu-read ---------------------------------------------------------------------------------------------------


def figure(question: str, title: str, row: str, **cells: Any) -> Any:
    from gpu.results import Result

    data = {"question": question, "title": title, "row": row, "cells": cells}
    return Result("figures", f"{question}: {row}", "passed", 1.0, data=data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with nothing in it that was ever measured on a GPU."""
    for name in ("benchmarks/results", "src/gradwright/ground", "tests/on_gpu"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/gradwright/ground/devices.json").write_text("{}\n")
    return tmp_path


def bring_back(folder: Path, results: Sequence[Any]) -> Path:
    folder.mkdir()
    (folder / "results.jsonl").write_text("".join(json.dumps(asdict(result)) + "\n" for result in results))
    return folder


MACHINE = {
    "device": "cuda", "name": "Abacus 3000", "date": "2001-02-03", "cores": 16, "python": "3.12.3", "torch": "2.11.0",
}  # fmt: skip
RATES = {
    "flop_rate": 5e13, "byte_rate": 4e12, "single": 1e-5, "vmapped": 2e-5, "pushed": 3e-5, "start": 4e-5, "cache": 6e7,
    "spill": 0.1,
}  # fmt: skip


def test_figures_constants_and_failures_are_taken_over(root: Path, tmp_path: Path) -> None:
    from gpu.results import Result
    from read_gpu import read

    name = "tests/on_gpu/test_some.py::test_one"
    results = [
        Result("machine", "machine", "passed", 3.0, data=MACHINE),
        Result("tests", name, "failed", 1.0, "AssertionError: wrong", "in a line\nAssertionError: wrong"),
        Result("tests", f"{name}_more", "passed", 1.0),
        figure("how_fast_is_a_formula", "", "Huber, 1e+06", ours_us=12.5, eager="3.10"),
        figure("how_fast_is_a_formula", "Other cells", "Huber, bfloat16", ours_us=7.5),
        Result("figures", "how_fast_is_a_formula: GELU, 1e+06", "hung", 60.0, "not over after 60 s"),
        figure("what_does_a_launch_cost", "", "planner", rows_together=16, **RATES),
    ]
    said = read(bring_back(tmp_path / "back", results), root)
    data = json.loads((root / "benchmarks/results/how_fast_is_a_formula.cuda.json").read_text())
    assert data["results"] == {"Huber, 1e+06": {"ours_us": 12.5, "eager": "3.10"}}
    assert data["tables"] == {"Other cells": {"Huber, bfloat16": {"ours_us": 7.5}}}
    assert data["machine"]["cpu"] == "Abacus 3000" and data["machine"]["device"] == "cuda"
    assert "GELU, 1e+06: hung" in data["notes"][0]
    table = json.loads((root / "src/gradwright/ground/devices.json").read_text())
    assert table == {"Abacus 3000": {"measured": "2001-02-03, torch 2.11.0", "rows_together": 16, "rates": RATES}}
    to_mend = (root / "tests/on_gpu/to_mend.md").read_text()
    assert f"python3 -m pytest -m gpu '{name}'" in to_mend and "AssertionError: wrong" in to_mend
    assert "GELU, 1e+06" in to_mend and f"{name}_more" not in to_mend
    assert "2 to mend: tests/on_gpu/to_mend.md" in said


def test_a_row_of_the_table_is_what_the_planner_reads(root: Path, tmp_path: Path) -> None:
    from gpu.results import Result
    from read_gpu import read

    from gradwright.derivatives.planning.cost import Machine
    from gradwright.ground.devices import DeviceConstants

    results = [
        Result("machine", "machine", "passed", data=MACHINE),
        figure("what_does_a_launch_cost", "", "planner", rows_together=16, **RATES),
    ]
    read(bring_back(tmp_path / "back", results), root)
    (row,) = json.loads((root / "src/gradwright/ground/devices.json").read_text()).values()
    assert Machine(**DeviceConstants(**row).rates).byte_rate == 4e12


@pytest.mark.parametrize(("machine", "said"), [({**MACHINE, "device": "cpu"}, "dry run"), (None, "not known")])
def test_nothing_is_taken_from_a_dry_run_or_an_unknown_machine(
    machine: dict[str, Any] | None, said: str, root: Path, tmp_path: Path
) -> None:
    from gpu.results import Result
    from read_gpu import read

    results = [] if machine is None else [Result("machine", "machine", "passed", data=machine)]
    results.append(figure("how_fast_is_a_formula", "", "Huber", ours_us=1.0))
    with pytest.raises(SystemExit, match=said):
        read(bring_back(tmp_path / "back", results), root)
    assert not list((root / "benchmarks/results").iterdir())


# --- make gpu-pack ---------------------------------------------------------------------------------------------------


def test_what_travels_is_of_the_lock_files_versions_and_a_missing_one_is_named() -> None:
    from pack_gpu import TRAVELLING, find_versions

    lock = (ROOT / "requirements" / "lock.txt").read_text()
    found = find_versions(lock)
    assert [each.split("==")[0] for each in found] == list(TRAVELLING)
    assert set(found) <= {line.split("#")[0].strip() for line in lock.splitlines()}
    with pytest.raises(SystemExit, match=r"not in the lock file: .*libcst"):
        find_versions(lock.replace("libcst==", "libcst2=="))
