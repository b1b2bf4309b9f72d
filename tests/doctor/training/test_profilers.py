"""A profiler that was left on, however it was started; and the searches that are no fault."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).pow(2).mean().backward()
        optimizer.step()
"""
LEFT_ON = {
    "torch.profiler's, around the loop": """
        with torch.profiler.profile():  # here
            train(70)
        """,
    "autograd's, around the loop": """
        with torch.autograd.profiler.profile():  # here
            train(70)
        """,
    "started, and never stopped": """
        prof = torch.profiler.profile()
        def main():
            prof.start()  # here
            train(70)
        main()
        """,
}
FINE = {
    "a few steps": """
        with torch.profiler.profile():
            train(20)
        train(60)
        """,
    "a short script": """
        with torch.profiler.profile():
            train(40)
        """,
    "half of the steps": """
        with torch.profiler.profile():
            train(70)
        train(70)
        """,
    "none": "train(80)",
}


@pytest.fixture
def told(run: Callable, tmp_path: Path) -> Callable[[str], list]:
    def diagnose(text: str) -> list:
        script = tmp_path / "train.py"
        script.write_text(HEAD + textwrap.dedent(text))
        ran = run(script, probe_seconds=0.0, fix_seconds=0.0)
        assert ran.report.script.exit_code == 0, ran.stderr
        assert not [gap for gap in ran.report.not_examined if "watching failed" in gap.why]
        lines = script.read_text().splitlines()
        return [(one, lines[one.location.line - 1]) for one in ran.report.findings if one.code == "GW318"]

    return diagnose


@pytest.mark.parametrize("what", LEFT_ON)
def test_it_is_told_where_it_was_started(what: str, told: Callable) -> None:
    ((finding, line),) = told(LEFT_ON[what])
    assert line.endswith("# here")
    assert "70 of 70 backwards" in finding.message


@pytest.mark.parametrize("what", FINE)
def test_a_search_is_no_fault(what: str, told: Callable) -> None:
    assert told(FINE[what]) == []
