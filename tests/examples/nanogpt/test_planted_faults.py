"""The doctor on examples/nanogpt: nothing where nothing is wrong; of each planted fault its code and its line."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.examples.nanogpt.plants import PLANTS, TINY, Plant, copied

PAGE = Path(__file__).parents[3] / "docs" / "applications" / "nanogpt.md"

# Of those that try the gradients written by hand, two are enough for the test command: `make test-peers` runs all.
SLOW = {
    "slope of gelu",
    "cotangent ignored",
    "rows one by one",
    "softmax twice, ours",
    "ours, two micro-batches",
}

SETTINGS = {
    "one micro-batch": ("plain.py",),
    "two, another seed": ("plain.py", "--accumulation-steps", "2", "--seed", "1"),
    "four layers": ("plain.py", "--layers", "4", "--seed", "2"),
    "four heads, wider": ("plain.py", "--heads", "4", "--width", "32", "--seed", "3"),
    "ours": ("train.py", "--no-curves"),
    "ours, two micro-batches": ("train.py", "--no-curves", "--accumulation-steps", "2", "--seed", "4"),
}


def _cases(named: dict) -> list:
    return [
        pytest.param(one, id=name, marks=[pytest.mark.peers] if name in SLOW else []) for name, one in named.items()
    ]


def test_there_are_ten_of_different_kinds() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 10
    assert len({plant.code for plant in PLANTS}) >= 10


def test_the_page_tells_of_no_other_faults() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "](../rules/GW" in line and line.startswith("|")]
    assert [row.split("|")[1].strip() for row in rows] == [plant.what for plant in PLANTS]


@pytest.mark.parametrize("plant", _cases({plant.name: plant for plant in PLANTS}))
def test_a_planted_fault_is_found_by_code_and_line(plant: Plant, run: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "nanogpt"
    # What is said of a fault does not hang on how much else the machine does.
    ran = run(plant.planted(folder), *plant.arguments, fix_seconds=5.0, probe_seconds=120.0, seconds=240.0)
    place = (plant.code, *plant.place(folder))
    told = [
        one.message
        for one in ran.faults
        if one.location and place == (one.code, Path(one.location.path).name, one.location.line)
    ]
    page = _without_timings(PAGE.read_text())
    rows = [f"| {plant.what} | [{plant.code}](../rules/{plant.code}.md) | {message} |" for message in told]
    assert any(_without_timings(row) in page for row in rows), rows


def _without_timings(text: str) -> str:
    return re.sub(r"[\d.]+(?= % of the step| times as long)", "N", text)


@pytest.mark.parametrize("arguments", _cases(SETTINGS))
def test_nothing_is_found_where_nothing_is_planted(arguments: tuple[str, ...], run: Callable, tmp_path: Path) -> None:
    copied(tmp_path / "nanogpt")
    script, *more = arguments
    ran = run(tmp_path / "nanogpt" / script, "--steps", "12", *TINY, *more, fix_seconds=5.0)
    assert ran.report.script.exit_code == 0, ran.stderr
    assert [finding.message for finding in ran.faults] == []


def test_a_plant_that_does_not_apply_once_is_refused(tmp_path: Path) -> None:
    lost = Plant("lost", "", "plain.py", (("plain.py", "no such line", ""),), "GW601", "loss.backward()")
    with pytest.raises(ValueError, match="stands 0 times"):
        lost.planted(tmp_path / "nanogpt")
