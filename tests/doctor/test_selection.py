"""What is selected, ignored or suppressed is left out of what a full run finds; nothing else comes up in its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.options import Options
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import ArrayTwin, LoopsTreated, TorchTwin
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding, Source
from gradwright.doctor.session.place import Location

SCRIPT = """import torch

class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        {loop}
        return out
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g

weight = torch.ones(64, {width}, requires_grad=True)
for step in range(3):
    weight.grad = None
    (Squares.apply(weight) * 3).sum().backward()
"""

BY_ELEMENTS = """for row in range(len(x)):
            for col in range(x.shape[1]):
                out[row, col] = x[row, col] ** 2"""
BY_ROWS = """for row in range(len(x)):
            out[row] = x[row] ** 2"""
ELEMENTS = SCRIPT.format(loop=BY_ELEMENTS, width=8)
ROWS = SCRIPT.format(loop=BY_ROWS, width=64)


def finding(code: str, line: int) -> Finding:
    return Finding(code, "a-name", "speed", "warning", "Squares", Location("train.py", line), "slow", "")


def told(run: Callable, tmp_path: Path, text: str, **options) -> tuple[list[str], list[str]]:
    """The codes of loops that are told, and of those that are suppressed."""
    script = tmp_path / "train.py"
    script.write_text(text)
    report = run(script, cwd=tmp_path, **options).report
    findings, suppressed = ([one.code for one in many if one.code.startswith("GW3")] for many in
                            (report.findings, report.suppressed))  # fmt: skip
    return findings, suppressed


@pytest.mark.parametrize(
    "options", [{"select": ("GW5",)}, {"ignore": ("GW301",)}, {"select": ("GW304", "GW31")}], ids=str
)
def test_no_other_finding_takes_the_place_of_one_that_is_not_selected(
    options: dict, run: Callable, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(ELEMENTS)
    report = run(script, cwd=tmp_path, **options).report
    assert report.findings == ()
    assert report.script.not_selected == 1  # GW301


def test_nor_of_one_that_a_comment_suppresses(run: Callable, tmp_path: Path) -> None:
    quiet = ELEMENTS.replace("range(len(x)):", "range(len(x)):  # gradwright: ignore[GW301]")
    assert told(run, tmp_path, quiet) == ([], ["GW301"])


def test_findings_of_the_treatment_are_selected_and_suppressed_like_others(run: Callable, tmp_path: Path) -> None:
    quiet = ROWS.replace("range(len(x)):", "range(len(x)):  # gradwright: ignore[GW304]")
    assert told(run, tmp_path, ROWS, select=("GW304",)) == (["GW304"], [])
    assert told(run, tmp_path, quiet) == ([], ["GW304"])
    assert told(run, tmp_path, ROWS, ignore=("GW304",)) == ([], [])


def test_the_filter_knows_all_and_tells_what_is_wanted(tmp_path: Path) -> None:
    source = Source("train.py", "", "a\nb  # gradwright: ignore[GW6]\n")
    selection = Selection(Options(select=("GW6", "GW1")), (source,))
    first, second, third = finding("GW601", 1), finding("GW601", 2), finding("GW301", 1)
    with Journal(tmp_path / "journal") as journal:
        for one in (first, second, third):
            selection.tell(journal, one)
        selection.count(journal)
    report = fold(tmp_path / "journal")
    assert (report.findings, report.suppressed) == ((first,), (second,))
    assert selection.found == [first, second, third]
    assert report.script.not_selected == 1


@pytest.mark.parametrize(
    ("options", "loops", "numpy"),
    [
        (Options(), True, True),
        (Options(select=("GW5",)), False, False),
        (Options(select=("GW314",)), True, False),  # waits for the loops that are told as a whole
        (Options(ignore=("GW3",)), False, False),
    ],
)
def test_treatment_looks_for_what_something_wanted_hangs_on(options: Options, loops: bool, numpy: bool) -> None:
    selection = Selection(options, ())
    assert selection.hangs_on(ArrayTwin, LoopsTreated) is loops
    assert selection.hangs_on(TorchTwin) is numpy
