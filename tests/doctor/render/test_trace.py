"""A session as a trace: what a viewer reads, from a session of anybody's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.doctor.render.traces import parents_of, read_trace, spans_of

from gradwright.doctor.render import render
from gradwright.doctor.session.facts import GradientCalls, LossValues, OptimizerSteps, RankRun, Timeline
from gradwright.doctor.session.model import Report, Specimen, TensorSpec

SQUARE, LOSS = "subject MySquare", "subject backward in main"
KINDS = ("forward", "backward", "gradient call", "step")


def timeline(*rows, number: int = 0, dropped: int = 0) -> Timeline:
    """Rows of (whom, span, start, seconds, thread, step)."""
    whom, spans, starts, seconds, threads, steps = zip(*rows, strict=True)
    return Timeline(
        id=f"timeline {number}",
        subject="script",
        whom=whom,
        spans=spans,
        starts=starts,
        seconds=seconds,
        threads=threads,
        steps=steps,
        dropped=dropped,
    )


def with_timeline(make, *timelines: Timeline, facts=()) -> Report:
    report = make.first_sight()
    subjects = (*report.subjects, make.subject("backward in main", "gradient_call", 50))
    return replace(report, subjects=subjects, facts=(*report.facts, *facts, *timelines))


STEP = (
    (SQUARE, "forward", 1.0, 0.25, 0, 0),
    (SQUARE, "backward", 1.5, 0.25, 0, 0),
    (LOSS, "gradient call", 1.4, 0.5, 0, 0),
)


def test_a_span_is_named_and_told_of_in_microseconds(make):
    events = spans_of(read_trace(render(with_timeline(make, timeline(*STEP)), "trace")))
    assert [(event["name"], event["cat"], event["ts"], event["dur"]) for event in events] == [
        ("MySquare.forward", "forward", 1e6, 250e3),
        ("backward in main", "gradient call", 1.4e6, 500e3),
        ("MySquare.backward", "backward", 1.5e6, 250e3),
    ]
    assert events[0]["args"]["at"] == "train.py:10" and events[0]["args"]["step"] == 0
    assert events[0]["args"]["findings"] == [f"GW301 {make.finding().message}"]
    assert "findings" not in events[1]["args"]


def test_rows_nest_and_the_reader_sees_where_they_do_not(make):
    trace = read_trace(render(with_timeline(make, timeline(*STEP)), "trace"))
    assert ("MySquare.backward", "backward in main") in parents_of(trace)
    beyond = (*STEP, (SQUARE, "forward", 1.8, 0.3, 0, 0))
    with pytest.raises(AssertionError, match=r"MySquare\.forward ends after backward in main"):
        parents_of(read_trace(render(with_timeline(make, timeline(*beyond)), "trace")))
    apart = (*STEP, (SQUARE, "forward", 1.8, 0.3, 1, 0))
    trace = read_trace(render(with_timeline(make, timeline(*apart)), "trace"))
    assert parents_of(trace)[-1] == ("MySquare.forward", "")
    assert [one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"] == [
        "thread 0",
        "thread 1",
    ]


def test_what_had_no_room_is_counted_and_said(make):
    report = with_timeline(make, timeline(*STEP), timeline(*STEP[:1], number=1, dropped=12_345))
    about = read_trace(render(report, "trace"))["otherData"]
    assert about["dropped"] == 12_345
    assert about["note"] == "the first 4 spans of the run; 12,345 more had no room"


def test_a_session_without_a_timeline_is_a_trace_that_says_so(make):
    trace = read_trace(render(make.first_sight(), "trace"))
    assert trace["traceEvents"] == [] and trace["otherData"]["note"].startswith("no timeline: ")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300])
def test_numbers_that_are_no_times_are_left_out_and_counted(make, number):
    rows = (*STEP, (SQUARE, "forward", number, 0.1, 0, 0), (SQUARE, "forward", 2.0, number, 0, 0))
    trace = read_trace(render(with_timeline(make, timeline(*rows)), "trace"))
    assert len(spans_of(trace)) == 3 and trace["otherData"]["unreadable"] == 2


def test_columns_of_unequal_length_are_read_as_far_as_they_go(make):
    short = replace(timeline(*STEP), seconds=(0.25, 0.25))
    trace = read_trace(render(with_timeline(make, short), "trace"))
    assert len(spans_of(trace)) == 2 and trace["otherData"]["unreadable"] == 1


@pytest.mark.parametrize("name", ['<script>"\\', "a\x1b[31mb\nc", "\u202eevil", "\ud800x", "名前"])
def test_names_of_the_users_are_cleaned_and_quoted(make, name):
    report = with_timeline(make, timeline((name, "forward", 0.0, 1.0, 0, 0)))
    text = render(report, "trace")
    text.encode()
    (event,) = spans_of(read_trace(text))
    assert event["name"].endswith(".forward") and not set("\x1b\n\u202e\ud800") & set(event["name"])


def test_a_finding_that_begins_at_a_step_is_marked_there(make):
    losses = LossValues(
        id="losses",
        subject=LOSS,
        calls=3,
        first=1.0,
        last=0.0,
        lowest=0.0,
        first_nonfinite_step=1,
        first_nonfinite="nan",
    )
    calls = GradientCalls(
        id="gradients", subject=LOSS, api="backward", calls=3, seconds=1.5, share_of_step=0.5, longest_run=0
    )
    rows = [(LOSS, "gradient call", float(at), 0.5, 0, at) for at in range(3)]
    report = with_timeline(make, timeline(*rows), facts=(losses, calls))
    report = replace(report, findings=(make.finding(code="GW501", evidence=("losses",), message="the loss is NaN"),))
    (moment,) = [event for event in read_trace(render(report, "trace"))["traceEvents"] if event["ph"] == "i"]
    assert (moment["name"], moment["ts"], moment["args"]["step"]) == ("GW501", 1.5e6, 1)
    other = replace(calls, calls=4)  # one call was not of a loss: which, is not known
    report = replace(report, facts=tuple(other if fact is calls else fact for fact in report.facts))
    assert not [event for event in read_trace(render(report, "trace"))["traceEvents"] if event["ph"] == "i"]


def test_times_of_work_on_a_gpu_are_said_to_be_of_launching_it(make):
    on_gpu = Specimen("s", SQUARE, 0, (TensorSpec("x", (3,), "float32", device="cuda:0"),))
    report = replace(with_timeline(make, timeline(*STEP)), specimens=(on_gpu,))
    told = {event["name"]: event["args"].get("times") for event in spans_of(read_trace(render(report, "trace")))}
    assert told["MySquare.forward"] == "of launching the work on the GPU, not of the work"
    assert told["backward in main"] is None


def test_the_process_is_the_script_and_its_rank(make):
    report = with_timeline(make, timeline(*STEP))
    trace = read_trace(render(report, "trace"))
    assert [one["args"] for one in trace["traceEvents"] if one["name"] == "process_name"] == [{"name": "train.py"}]
    report = replace(report, script=replace(report.script, rank=1))
    trace = read_trace(render(report, "trace"))
    (process,) = [one for one in trace["traceEvents"] if one["name"] == "process_name"]
    assert process["args"] == {"name": "train.py, rank 1"} and process["pid"] == 1


def test_ranks_are_processes_and_a_finding_of_one_is_marked_in_its_own(make):
    runs = [RankRun(id=f"run of rank {rank}", subject="script", rank=rank, world_size=3, session="") for rank in (1, 2)]
    lost = RankRun(id="run of rank 0", subject="script", rank=0, world_size=3, session="", missing="it died early")
    steps = OptimizerSteps(id="rank 2: steps", subject="adam", steps=2, stale_steps=1, first_stale_step=1)
    first = timeline(*STEP, ("adam", "step", 3.0, 0.5, 0, 0), ("adam", "step", 4.0, 0.5, 0, 1))
    other = replace(timeline(*STEP, ("adam", "step", 5.0, 0.5, 0, 0), ("adam", "step", 6.0, 0.5, 0, 1)))
    report = with_timeline(make, first, replace(other, id="rank 2: timeline 0"), facts=(lost, *runs, steps))
    report = replace(report, findings=(make.finding(code="GW601", evidence=("rank 2: steps",)),))
    trace = read_trace(render(report, "trace"))
    names = {one["pid"]: one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "process_name"}
    assert names == {1: "train.py, rank 1", 2: "train.py, rank 2"}
    assert len(parents_of(trace)) == 10
    (moment,) = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert (moment["pid"], moment["ts"]) == (2, 6.5e6)


def test_the_reader_refuses_what_is_no_strict_json():
    with pytest.raises(ValueError, match="NaN is no JSON"):
        read_trace('{"traceEvents":[],"displayTimeUnit":"ms","otherData":{"x":NaN}}')
