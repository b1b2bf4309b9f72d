"""The figures of a GPU: what fails is reported, and stops nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def machine() -> Any:
    from on_gpu.figure import Machine

    return Machine(CPU, is_small=True, copy_bytes_per_second=1e10, rounds=1)


def made_up(row: str, measure: Callable[[Any], Any]) -> Any:
    from on_gpu.figure import Figure

    return Figure("how_fast", "By size", row, measure)


def ended(events: Path) -> list[dict[str, Any]]:
    """The ends of figures; each has begun in the line before. The list of all is left out."""
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    lines = [line for line in lines if line["event"] != "listed"]
    assert [line["event"] for line in lines] == ["began", "ended"] * (len(lines) // 2)
    assert [line["name"] for line in lines[::2]] == [line["name"] for line in lines[1::2]]
    return lines[1::2]


@pytest.mark.parametrize("small", [False, True])
def test_names_are_unique_and_questions_are_those_of_the_benchmarks(small: bool) -> None:
    from on_gpu.all_figures import list_figures

    figures = list_figures(small)
    assert [name for name, count in Counter(figure.name for figure in figures).items() if count > 1] == []
    questions = {figure.question for figure in figures} - {"what_does_the_device_copy", "what_does_a_launch_cost"}
    assert len(questions) == 5
    assert [question for question in questions if not (BENCHMARKS / f"{question}.py").exists()] == []
    assert figures[0].question == "what_does_the_device_copy"


def test_a_figure_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    from on_gpu.figure import OursFailed, Skipped
    from on_gpu.running import Events, run_figures

    def broken(_: Any) -> Any:
        raise ValueError("no such kernel\nand more")

    def wrong(_: Any) -> Any:
        raise OursFailed("ours: wrong", {"ours_us": "wrong"})

    def skipped(_: Any) -> Any:
        raise Skipped("not here")

    figures = [
        made_up("broken", broken),
        made_up("wrong", wrong),
        made_up("skipped", skipped),
        made_up("a tensor in a cell", lambda _: {"us": torch.ones(())}),
        made_up("right", lambda machine: {"us": machine.copy_seconds(1e10)}),
    ]
    assert run_figures(figures, machine(), Events(tmp_path / "events.jsonl"))
    ends = ended(tmp_path / "events.jsonl")
    assert [end["outcome"] for end in ends] == ["failed", "failed", "skipped", "failed", "passed"]
    assert ends[0]["why"] == "ValueError: no such kernel"
    assert "and more" in ends[0]["traceback"]
    assert ends[1]["data"]["cells"] == {"ours_us": "wrong"}
    assert ends[2]["why"] == "not here"
    assert ends[4]["data"] == {"question": "how_fast", "title": "By size", "row": "right", "cells": {"us": 1.0}}


def test_a_lost_device_ends_the_run_and_what_it_returned_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from on_gpu import running

    monkeypatch.setattr(running, "find_loss", lambda device: "CUDA error: an illegal memory access")
    figures = [made_up(row, lambda _: {}) for row in ("first", "second")]
    assert not running.run_figures(figures, machine(), running.Events(tmp_path / "events.jsonl"))
    (end,) = ended(tmp_path / "events.jsonl")
    assert (end["name"], end["outcome"]) == ("how_fast: first", "failed")
    assert "illegal memory access" in end["why"]


def test_a_way_that_is_wrong_or_fails_has_no_time_and_the_others_have() -> None:
    from on_gpu.comparing import Way, compare

    truth = torch.arange(4.0, dtype=torch.float64)
    calls = []

    def broken() -> Any:
        raise RuntimeError("out of memory")

    ways = {
        "ours": Way(truth.float),
        "off": Way(lambda: truth.float() * 1.01),
        "nan": Way(lambda: truth.float() / 0),
        "broken": Way(broken),
        "in place": Way(truth.float, prepare=lambda: calls.append("prepared")),
        "floor": Way(lambda: None),
    }
    found = compare(ways, machine(), truth=[truth], tolerance=1e-3, unchecked=["floor"])
    assert set(found.seconds) == {"ours", "in place", "floor"}
    assert [found.ratio(name) for name in ("ours", "off", "nan", "broken")] == ["1.00", "wrong", "wrong", "-"]
    assert found.notes["broken"] == "RuntimeError: out of memory"
    assert found.errors["off"] == pytest.approx(0.01, rel=1e-3)
    assert len(calls) >= 4
    assert "off: wrong" in found.finish({"ours_us": 1})["notes"]


def test_ours_must_be_right() -> None:
    from on_gpu.comparing import Way, compare
    from on_gpu.figure import OursFailed

    truth = torch.ones(3, dtype=torch.float64)
    ways = {"ours": Way(lambda: torch.zeros(3)), "eager": Way(lambda: torch.ones(3))}
    found = compare(ways, machine(), truth=[truth], tolerance=1e-3)
    assert found.ratio("eager") == "-"
    with pytest.raises(OursFailed, match="ours: wrong: off by") as raised:
        found.finish({"ours_us": found.ratio("ours")})
    assert raised.value.cells["ours_us"] == "wrong"
    assert "eager" in raised.value.cells["notes"]


@pytest.mark.parametrize(
    ("watched", "said"),
    [(["0x1.8p+0"], True), (["0x1.0p+0"], "apart by 3.3e-01"), ([], "not known")],
)
def test_losses_of_a_plain_and_a_watched_run_are_compared(watched: list[str], said: bool | str) -> None:
    from on_gpu.watching import describe_difference

    assert describe_difference(["0x1.8p+0"], watched) == said


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRADWRIGHT_GPU_DRY": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(BENCHMARKS / "run_on_gpu.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_the_figures_that_a_file_names_are_measured_and_those_of_one_table_have_the_same_columns(
    tmp_path: Path,
) -> None:
    from on_gpu.all_figures import list_figures

    known = [figure.name for figure in list_figures(small=True) if figure.question == "how_fast_is_a_formula"]
    names, events = tmp_path / "names.txt", tmp_path / "events.jsonl"
    names.write_text("\n".join([*known[:2], "how_fast: nobody"]))
    done = run("--only-file", str(names), "--into", str(events))
    assert done.returncode == 0, done.stderr
    nobody, *measured = ended(events)
    assert (nobody["name"], nobody["outcome"]) == ("how_fast: nobody", "failed")
    assert [(end["name"], end["outcome"], end["why"]) for end in measured] == [(n, "passed", "") for n in known[:2]]
    first, second = (end["data"]["cells"] for end in measured)
    assert list(first) == list(second)
    assert first["ours_us"] > 0
    assert first["backend"] == "numba"
    assert first["compile"] == "-"
    assert "not in a dry run" in first["notes"]


def test_without_the_device_every_figure_has_failed(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    events = tmp_path / "events.jsonl"
    done = run("--device", "cuda", "--into", str(events))
    assert done.returncode == 0, done.stderr
    ends = ended(events)
    assert len(ends) > 5
    assert {end["outcome"] for end in ends} == {"failed"}
    assert all(end["why"].startswith("the device copies nothing") for end in ends)


def test_the_constants_are_those_that_the_planner_reads() -> None:
    import torch
    from on_gpu.constants import QUESTION, measure
    from on_gpu.figure import Machine

    from gradwright.derivatives.planning import cost
    from gradwright.ground.devices import DeviceConstants

    assert f'"{QUESTION}"' in (ROOT / "tools" / "read_gpu.py").read_text()  # it knows the row by that
    rates = measure(Machine(torch.device("cpu"), is_small=True, copy_bytes_per_second=1e10, rounds=1))
    row = DeviceConstants("today", rows_together=rates.pop("rows_together"), rates=rates)
    found = cost.Machine(**row.rates)
    assert row.rows_together in (8, 16)
    assert found.byte_rate == 1e10 and found.cache == cost.CPU.cache and found.spill >= 0
    assert min(found.flop_rate, found.single, found.vmapped, found.pushed, found.start) > 0
