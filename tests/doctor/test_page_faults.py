"""Buffers that are allocated anew, as scripts have them: what is told, and above all what is not."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.holes import in_child_without_holes

from gradwright.doctor.observe.faults import FaultWatch
from gradwright.doctor.probe import page_faults
from gradwright.doctor.probe.attempts import Limits
from gradwright.doctor.rules import judge
from gradwright.doctor.session.facts import Fact, FreshBuffers, PageFaults
from gradwright.doctor.session.model import Finding, NotExamined, Subject
from gradwright.doctor.session.place import Location
from gradwright.ground.forked import Outcome
from gradwright.kernels.freed_memory import RetainedMemory

CALL = Subject("call", "gradient_call", "backward in the script", Location("train.py", 40, 5))
MANY = PageFaults(
    id="faults call",
    subject="call",
    calls=40,
    faults=40_000,
    seconds=0.1,
    grown_bytes=0,
    step_faults=60_000,
    step_seconds=0.15,
)
TRIAL = FreshBuffers(
    id="fresh buffers", subject="script", buffer_bytes=40_000_000, faults=10_000, seconds=0.018, kept_seconds=0.003
)
HEAD = "import torch\ntorch.manual_seed(0)\n"
SILENT = {
    "small tensors": """
        model = torch.nn.Linear(64, 64)
        for _ in range(40):
            model(torch.randn(32, 64)).square().mean().backward()
        """,
    "a process that grows": """
        kept = []
        for _ in range(8):
            x = torch.zeros(9_000_000, requires_grad=True)
            (2 * x).sum().backward()
            kept.append(x)
        """,
    "large buffers that stay": """
        from gradwright.kernels.freed_memory import retain_freed_memory
        retain_freed_memory()
        x = torch.zeros(10_000_000, requires_grad=True)
        for _ in range(30):
            x.grad = None
            (x * x).sum().backward()
        """,
    "one backward": """
        x = torch.zeros(10_000_000, requires_grad=True)
        (x * x).sum().backward()
        """,
}


def test_growth_would_be_told_of_if_it_were_not_taken_off(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(SILENT["a process that grows"]))
    (seen,) = run(tmp_path / "train.py", fix_seconds=0.0).report.of(PageFaults)
    seen = dataclasses.replace(seen, subject=CALL.id)
    assert not list(findings(seen, TRIAL))
    assert list(findings(dataclasses.replace(seen, grown_bytes=0), TRIAL))


@pytest.mark.parametrize("name", SILENT)
def test_it_is_not_told_of(name: str, run: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(SILENT[name]))
    ran = run(tmp_path / "train.py", fix_seconds=0.0)
    assert ran.report.script.exit_code == 0, ran.stderr
    assert "GW401" not in ran.codes


def test_the_buffers_of_a_backward_are_counted_and_what_the_doctor_looks_at_is_not(
    run: Callable, tmp_path: Path
) -> None:
    """The watching of an optimizer compares gradients with zero: 10 MB for each of these, at every step."""
    (tmp_path / "train.py").write_text(
        HEAD
        + textwrap.dedent("""
        x = torch.zeros(10_000_000, requires_grad=True)
        optimizer = torch.optim.SGD([x], lr=0.1, foreach=False)
        for _ in range(8):
            optimizer.zero_grad()
            (x * x).sum().backward()
            optimizer.step()
        """)
    )
    (seen,) = run(tmp_path / "train.py", fix_seconds=0.0).report.of(PageFaults)
    pages = 40_000_000 // 4096
    assert seen.calls == 8
    assert 1.9 * pages < seen.faults < 2.1 * pages  # two products with x; the second is added to the first
    assert 2.9 * pages < seen.step_faults < 3.1 * pages  # and x * x
    assert seen.grown_bytes < 4_000_000


def step(watch: FaultWatch, apart: bool) -> None:
    watch.arrived(CALL)
    watch.starts(CALL)
    watch.ended(CALL)
    watch.left(CALL)
    if apart:
        with watch.ours():
            torch.ones(10_000_000)
    else:
        torch.ones(10_000_000)


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "not apart"])
def test_what_is_done_apart_is_taken_off(apart: bool) -> None:
    def faults() -> int:
        watch = FaultWatch()
        for _ in range(8):
            step(watch, apart)
        (fact,) = watch.facts()
        assert isinstance(fact, PageFaults)
        return fact.step_faults

    found = in_child_without_holes(faults)
    assert (found < 500) == apart


def test_few_calls_tell_nothing() -> None:
    watch = FaultWatch()
    for _ in range(3):
        step(watch, True)
    assert watch.facts() == []


@pytest.mark.parametrize(
    "moments",
    [("arrived", "ours", "starts", "ended", "left"), ("arrived", "starts", "ended", "ours", "left")],
    ids=["before the backward", "after it"],
)
def test_what_the_doctor_does_around_a_backward_is_taken_off(moments: tuple[str, ...]) -> None:
    def faults() -> PageFaults:
        watch = FaultWatch()
        for _ in range(8):
            for moment in moments:
                torch.ones(10_000_000) if moment == "ours" else getattr(watch, moment)(CALL)
        (fact,) = watch.facts()
        assert isinstance(fact, PageFaults)
        return fact

    found = in_child_without_holes(faults)
    assert found.faults < 500
    assert found.step_faults < 500


def test_where_nothing_is_counted_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwright.doctor.observe.faults.resource", None)  # as on Windows
    watch = FaultWatch()
    for _ in range(8):
        step(watch, False)
    assert list(page_faults.probe_page_faults(watch.facts())) == []


# --- the trial -----------------------------------------------------------------------------------------------------


def test_the_trial_finds_what_a_fault_costs() -> None:
    (cost,) = in_child_without_holes(lambda: list(page_faults.probe_page_faults([MANY])))
    assert isinstance(cost, FreshBuffers)
    assert cost.faults > 9000
    assert cost.kept_seconds < cost.seconds


@pytest.mark.parametrize("change", [{"faults": 200}, {"seconds": 100.0}], ids=["few", "a long backward"])
def test_what_can_not_matter_is_not_tried(change: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_faults, "attempt", lambda *_: pytest.fail("nothing is to be tried"))
    assert list(page_faults.probe_page_faults([dataclasses.replace(MANY, **change)])) == []


def test_where_there_is_no_child_it_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_faults, "torch_survives_fork", lambda: False)
    monkeypatch.setattr(page_faults, "attempt", lambda *_: pytest.fail("it can't be undone here"))
    (said,) = page_faults.probe_page_faults([MANY])
    assert isinstance(said, NotExamined)


@pytest.mark.parametrize(
    "outcome",
    [Outcome("died", why="ended by SIGKILL"), Outcome("returned", RetainedMemory(1 << 30, False, "ended by jemalloc"))],
    ids=["died", "another allocator"],
)
def test_a_trial_without_a_result_is_said(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(work: Callable[[], object], limits: Limits) -> Outcome:
        return outcome

    monkeypatch.setattr(page_faults, "attempt", given)
    (said,) = page_faults.probe_page_faults([MANY])
    assert isinstance(said, NotExamined)
    assert "ended by" in said.why


# --- the rule ------------------------------------------------------------------------------------------------------


def findings(*facts: Fact) -> Iterator[Finding]:
    return (finding for finding in judge([CALL], facts) if finding.code == "GW401")


def test_the_saving_is_the_number_of_faults_times_what_one_costs() -> None:
    (found,) = findings(MANY, TRIAL)
    assert found.severity == "info"
    assert found.location == CALL.location
    assert "about 60 % of its CPU time" in found.message
    assert "One costs 1.5 us here" in found.why
    assert found.hints[0].startswith(
        "gradwright.retain_freed_memory() at the start would save about 60 ms of the 100 ms of CPU time that a "
        "backward takes here, and up to 90 ms a step"
    )
    assert found.evidence == (MANY.id, TRIAL.id)


@pytest.mark.parametrize(
    "change",
    [
        {"faults": 600},  # 0.9 ms
        {"seconds": 0.7},  # 9 %
        {"grown_bytes": 40_000 * 4096},
    ],
    ids=["less than a millisecond", "less than a tenth", "all of it growth"],
)
def test_what_is_little_is_not_told(change: dict[str, float]) -> None:
    assert not list(findings(dataclasses.replace(MANY, **change), TRIAL))


def test_without_a_trial_nothing_is_told() -> None:
    assert not list(findings(MANY))
    assert not list(findings(MANY, dataclasses.replace(TRIAL, faults=0)))
    assert not list(findings(MANY, dataclasses.replace(TRIAL, kept_seconds=TRIAL.seconds)))
