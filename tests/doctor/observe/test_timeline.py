"""What happened when: spans as the script runs, within bounds, with threads, exceptions and forks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.doctor.render.traces import parents_of, read_trace, spans_of

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.render import render
from gradwright.doctor.session.facts import FunctionCalls, GradientCalls, OptimizerSteps, Timeline
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Report


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.inner = x.detach().requires_grad_()
            ctx.out = Square.apply(ctx.inner)
        return ctx.out.detach()

    @staticmethod
    def backward(ctx, grad_output):
        return torch.autograd.grad(ctx.out, ctx.inner, grad_output)[0]


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, now):
        if now:
            raise ValueError("not this one")
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        raise ValueError("nor backwards")


@pytest.fixture
def watched(tmp_path: Path) -> Callable[[Callable[[], object]], Report]:
    def watch(body: Callable[[], object], **bounds: int) -> Report:
        with Journal(tmp_path / "journal") as journal:
            clock = Clock()
            watching = Watch(journal, clock)
            for name, value in bounds.items():
                setattr(watching.timeline, name, value)
            with watching:
                body()
        return fold(tmp_path / "journal")

    return watch


def columns(report: Report) -> list[tuple[str, str, float, float, int, int]]:
    return [
        row
        for fact in report.of(Timeline)
        for row in zip(fact.whom, fact.spans, fact.starts, fact.seconds, fact.threads, fact.steps, strict=True)
    ]


def parents(report: Report) -> list[tuple[str, str]]:
    return parents_of(read_trace(render(report, "trace")))


def step(model: torch.nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    Square.apply(model(torch.ones(2, 3))).sum().backward()
    optimizer.step()


def test_spans_sum_up_to_what_the_facts_say_and_count_their_steps(watched) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    report = watched(lambda: [step(model, optimizer) for _ in range(3)])  # type: ignore[func-returns-value]
    rows = columns(report)
    (calls,) = report.of(FunctionCalls)
    (gradients,) = report.of(GradientCalls)
    (steps,) = report.of(OptimizerSteps)
    for whom, span, seconds, count in (
        (calls.subject, "forward", calls.forward_seconds, calls.forward_calls),
        (calls.subject, "backward", calls.backward_seconds, calls.backward_calls),
        (gradients.subject, "gradient call", gradients.seconds, gradients.calls),
        (steps.subject, "step", None, steps.steps),
    ):
        mine = [row for row in rows if row[:2] == (whom, span)]
        assert [row[5] for row in mine] == list(range(count)) == [0, 1, 2]
        assert seconds is None or sum(row[3] for row in mine) == pytest.approx(seconds, abs=1e-8)
    assert all(row[2] >= 0 and row[3] > 0 for row in rows)
    assert ("Square.backward", next(name for name, _ in parents(report) if name.startswith("backward in"))) in parents(
        report
    )
    assert next(around for name, around in parents(report) if name == "SGD.step") == ""


def test_functions_within_functions_nest_both_ways(watched) -> None:
    def body() -> None:
        x = torch.ones(2, requires_grad=True)
        Outer.apply(x).sum().backward()

    found = parents(watched(body))
    assert ("Square.forward", "Outer.forward") in found and ("Outer.forward", "") in found
    (inner,) = [around for name, around in found if name == "Square.backward"]
    assert inner.startswith("autograd.grad in") and (inner, "Outer.backward") in found


def test_a_call_that_raises_is_a_span_as_well(watched) -> None:
    def body() -> None:
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(ValueError, match="not this one"):
            Refuses.apply(x, True)
        with pytest.raises(ValueError, match="nor backwards"):
            Refuses.apply(x, False).sum().backward()

    assert [row[1] for row in columns(watched(body))] == ["forward", "forward", "backward", "gradient call"]


def test_a_step_that_raises_leaves_no_span_and_the_next_one_is_its_own(watched) -> None:
    class Once(torch.optim.SGD):
        raised = False

        def step(self, closure=None):
            if not self.raised:
                self.raised = True
                time.sleep(0.2)
                raise ValueError("first")
            return super().step(closure)

    def body() -> None:
        model = torch.nn.Linear(3, 1)
        optimizer = Once(model.parameters(), 0.01)
        with pytest.raises(ValueError, match="first"):
            step(model, optimizer)
        step(model, optimizer)

    steps = [row for row in columns(watched(body)) if row[1] == "step"]
    assert len(steps) == 1 and steps[0][3] < 0.2


def test_threads_have_rows_of_their_own(watched) -> None:
    def work() -> None:
        Square.apply(torch.ones(2, requires_grad=True)).sum().backward()

    def body() -> None:
        work()
        barrier = threading.Barrier(3)

        def waiting() -> None:
            barrier.wait()
            work()

        others = [threading.Thread(target=waiting) for _ in range(2)]
        for one in others:
            one.start()
        barrier.wait()
        for one in others:
            one.join()

    report = watched(body)
    assert [row[4] for row in columns(report)][:3] == [0, 0, 0]
    assert sorted({row[4] for row in columns(report)}) == [0, 1, 2]
    assert len(parents(report)) == 9


def test_what_does_not_fit_is_counted_in_the_last_chunk(watched) -> None:
    def body() -> None:
        for _ in range(10):
            Square.apply(torch.ones(2))

    report = watched(body, _most=7, _chunk=3)
    assert [(fact.id, len(fact.spans), fact.dropped) for fact in report.of(Timeline)] == [
        ("timeline 0", 3, 0),
        ("timeline 1", 3, 0),
        ("timeline 2", 1, 3),
    ]


def test_a_full_chunk_is_written_once_and_the_open_one_again() -> None:
    record = TimelineRecord(Clock(), most=5, chunk=2)
    handed = []
    for at in range(8):
        record.add("one", "forward", float(at), at + 0.5)
        handed.append([(fact.id, len(fact.whom), fact.dropped) for fact in record.unwritten()])
    assert handed[0] == [("timeline 0", 1, 0)]
    assert handed[1] == [("timeline 0", 2, 0)]
    assert handed[2] == [("timeline 1", 1, 0)]
    assert handed[4] == [("timeline 2", 1, 0)]
    assert handed[7] == [("timeline 2", 1, 3)]


def test_spans_that_meet_still_nest_after_rounding() -> None:
    clock = Clock()
    record = TimelineRecord(clock)
    start = clock.began + 0.1
    for at in range(2000):  # the inner one ends where the outer one does, at any fraction of a nanosecond
        begins, ends = start + at + 0.37e-9 * at, start + at + 0.5 + 0.73e-9 * at
        record.add("f", "forward", begins + 1e-7, ends)
        record.add("g", "gradient call", begins, ends)
    found = parents_of(read_trace(render(Report(facts=tuple(record.unwritten())), "trace")))
    assert found.count(("f.forward", "g")) == 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_writes_nothing(watched) -> None:
    def body() -> None:
        Square.apply(torch.ones(2))
        child = os.fork()
        if child == 0:
            Square.apply(torch.ones(2))
            os._exit(0)
        os.waitpid(child, 0)

    assert len(columns(watched(body))) == 1


def test_a_script_has_its_spans_from_its_beginning_on(run, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time\ntime.sleep(0.3)\nimport torch\n"
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return 2 * x\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return 2 * g\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "for _ in range(2):\n    Double.apply(x).sum().backward()\n"
    )
    report = run(script, fix_seconds=0.0).report
    starts = [row[2] for row in columns(report)]
    assert starts[0] >= 0.3 and starts[0] == min(starts)  # the sleep is in it, though torch was not there yet
    trace = read_trace(render(report, "trace"))
    assert [event["name"] for event in spans_of(trace)] == [
        "Double.forward",
        "backward in the script",
        "Double.backward",
    ] * 2
    assert spans_of(trace)[0]["args"]["at"] == "train.py:4"
