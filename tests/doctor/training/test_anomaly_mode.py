"""Anomaly mode that was left on, however it was switched on; and the searches that are no fault."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    optimizer.zero_grad()
    model(torch.ones(8, 4)).pow(2).mean().backward()
    optimizer.step()
"""
# The line that is told, and the script.
LEFT_ON = {
    "a block around the loop": ("with torch.autograd.detect_anomaly(check_nan=False):", """
        with torch.autograd.detect_anomaly(check_nan=False):
            for _ in range(12):
                step()
        """),
    "a switch in a function": ("torch.autograd.set_detect_anomaly(True)", """
        def main():
            torch.autograd.set_detect_anomaly(True)
            for _ in range(12):
                step()
        main()
        assert torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
        """),
}  # fmt: skip
FINE = {
    "a few steps": """
        for i in range(20):
            with torch.autograd.set_detect_anomaly(i < 5):
                step()
        """,
    "a call that switches it off": """
        torch.autograd.set_detect_anomaly(False)
        for _ in range(20):
            step()
        """,
}


@pytest.fixture
def told(run: Callable, tmp_path: Path) -> Callable[[str], list]:
    def diagnose(text: str) -> list:
        script = tmp_path / "train.py"
        script.write_text(HEAD + textwrap.dedent(text))
        ran = run(script, probe_seconds=0.0, fix_seconds=0.0)
        assert ran.report.script.exit_code == 0, ran.stderr
        lines = script.read_text().splitlines()
        return [(one, lines[one.location.line - 1].strip()) for one in ran.report.findings if one.code == "GW313"]

    return diagnose


@pytest.mark.parametrize("what", LEFT_ON)
def test_it_is_told_where_it_is_switched_on_with_its_cost_here(what: str, told: Callable) -> None:
    line, text = LEFT_ON[what]
    ((finding, at),) = told(text)
    assert at == line
    assert "12 of 12 backwards" in finding.message
    assert "times as long" in finding.why


@pytest.mark.parametrize("what", FINE)
def test_a_search_is_no_fault(what: str, told: Callable) -> None:
    assert told(FINE[what]) == []
