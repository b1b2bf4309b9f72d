"""Scripts that look for NaN themselves, so that no such loss goes backward: where it begins is told all the same."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.session.facts import NonfiniteBegins, OwnLook

HEAD = """
import math
import sys
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
rate, x = 0.1, torch.randn(16, 4)

def compute(step):
    kept = torch.full((16,), float(step % 6 != 3))
    return (model(x)[:, 0].square() * kept).sum() / kept.sum()

def back(loss):
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
"""
LINE = "return (model(x)[:, 0].square() * kept).sum() / kept.sum()"
# What the script does, and how that is told.
BROKEN_OFF = {
    "break": """
        def main():
            for step in range(12):
                loss = compute(step)
                if torch.isnan(loss):  # look
                    break
                back(loss)
                loss.backward
        main()
        """,
    "exit": """
        def main():
            for step in range(12):
                loss = compute(step)
                value = loss.item()
                if not math.isfinite(value):  # look
                    print(f"loss is {value}, stopping")
                    sys.exit(1)
                model.zero_grad()
                loss.backward()
        main()
        """,
    "a name and a function of its own": """
        def is_bad(loss):
            return not math.isfinite(loss.item())
        def main():
            for step in range(12):
                loss = compute(step)
                bad = is_bad(loss)
                if bad:  # look
                    break
                back(loss)
        main()
        """,
    "raise": """
        def check(loss):
            if loss.isnan().any():  # look
                raise RuntimeError("training went wrong")
        for step in range(12):
            check(loss := compute(step))
            back(loss)
        """,
    "return": """
        def main():
            for step in range(12):
                loss = compute(step + 3)
                if torch.isnan(loss) or torch.isinf(loss):  # look
                    return
                back(loss)
        main()
        """,
}
LEFT_OUT = {
    "continue": """
        for step in range(12):
            loss = compute(step)
            if not torch.isfinite(loss):  # look
                continue
            model.zero_grad()
            loss.backward()
        """,
    "skip": """
        for step in range(12):
            loss = compute(step)
            model.zero_grad()
            if torch.isfinite(loss):  # look
                loss.backward()
        """,
}
FINE = {
    "a loss that is mended": """
        for step in range(12):
            loss = compute(step)
            if torch.isnan(loss):
                loss = model(x).square().mean()
            back(loss)
        """,
    "a batch that is not finite": """
        for step in range(12):
            batch = x.clone()
            batch[0, 0] = math.nan if step == 2 else 0
            if torch.isnan(batch).any():
                continue
            model(batch).square().mean().backward()
        """,
    "looks that find nothing": """
        for step in range(12):
            loss = model(x).square().mean()
            if torch.isnan(loss):
                raise ValueError("nan")
            back(loss)
        """,
    "a validation loss": """
        def validate():
            with torch.no_grad():
                loss = compute(3)
            if torch.isnan(loss):
                return 0.0
            return loss
        for step in range(12):
            back(model(x).square().mean())
            validate()
        """,
}


@pytest.fixture
def ran(run: Callable, tmp_path: Path) -> Callable:
    def diagnose(text: str, **options) -> tuple:
        script = tmp_path / "train.py"
        script.write_text(HEAD + textwrap.dedent(text))
        lines = script.read_text().splitlines()
        look = next((number for number, line in enumerate(lines, 1) if "# look" in line), 0)
        return run(script, cwd=tmp_path, probe_seconds=0.0, fix_seconds=0.0, **options).report, lines, look

    return diagnose


@pytest.mark.parametrize("how", BROKEN_OFF)
def test_a_script_that_breaks_off_is_run_again(how: str, ran: Callable) -> None:
    report, lines, look = ran(BROKEN_OFF[how])
    (finding,) = (one for one in report.findings if one.severity != "info")
    assert (finding.code, finding.severity) == ("GW511", "error")
    assert lines[finding.location.line - 1].strip() == LINE
    assert "a division by a count of 0" in finding.message
    assert f"The script broke off by itself (train.py:{look})" in finding.why
    (seen,) = report.of(OwnLook)
    assert (seen.how, seen.times, seen.location.line) == ("break" if " " in how else how, 1, look)


def test_also_before_the_first_backward(ran: Callable) -> None:
    report, _, _ = ran(BROKEN_OFF["break"].replace("compute(step)", "compute(3)"))
    (begins,) = report.of(NonfiniteBegins)
    (seen,) = report.of(OwnLook)
    assert (begins.subject, begins.cause, seen.site, seen.step) == ("script", "zero-count", "", 0)


@pytest.mark.parametrize("how", LEFT_OUT)
def test_a_loss_that_is_left_out_is_worth_a_warning(how: str, ran: Callable) -> None:
    report, _, look = ran(LEFT_OUT[how])
    (finding,) = (one for one in report.findings if one.severity != "info")
    assert (finding.code, finding.severity) == ("GW511", "warning")
    assert f"The script left such a loss out by itself, 2 times (train.py:{look})" in finding.why
    assert "In step 3 (forward)" in finding.why


@pytest.mark.parametrize("message", ["", ', "the loss is wrong"'])
def test_an_assertion_that_looks_is_one_that_speaks_of_it(message: str, ran: Callable) -> None:
    text = f"""
        for step in range(12):
            loss = compute(step)
            assert torch.isfinite(loss){message}
            back(loss)
        """
    report, lines, _ = ran(text)
    (finding,) = report.findings
    assert (finding.code, lines[finding.location.line - 1].strip()) == ("GW511", LINE)


@pytest.mark.parametrize("what", FINE)
def test_nothing_is_run_again_where_no_loss_is_kept_back(what: str, ran: Callable) -> None:
    report, _, _ = ran(FINE[what])
    assert not list(report.of(OwnLook))
    assert [one.code for one in report.findings if one.code == "GW511"] == []
    assert "where NaN or inf begins" not in [gap.what for gap in report.not_examined]


def test_a_number_that_is_no_loss_is_said_to_be_none(ran: Callable) -> None:
    text = """
        for step in range(6):
            model(x).square().mean().backward()
            score = math.nan
            if math.isnan(score):
                continue
        """
    report, _, _ = ran(text)
    assert [one.code for one in report.findings if one.code == "GW511"] == []
    told = {gap.what: gap.why for gap in report.not_examined}
    assert told["where NaN or inf begins"].startswith("the script's own look came upon no loss")


def test_no_second_run_where_it_is_not_wanted(ran: Callable) -> None:
    report, _, _ = ran(LEFT_OUT["continue"], rerun="never")
    assert list(report.of(OwnLook)) and not list(report.of(NonfiniteBegins))
