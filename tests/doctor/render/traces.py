"""A reader of traces: what a viewer of the Trace Event Format needs, and whether rows nest."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def read_trace(text: str) -> dict[str, Any]:
    """The trace; AssertionError where a viewer would have to guess, ValueError where it is no strict JSON."""
    trace: dict[str, Any] = json.loads(text, parse_constant=_no_number)
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] == "ms"
    named = defaultdict(set)
    for event in trace["traceEvents"]:
        assert event["ph"] in "MXi" and isinstance(event["name"], str) and event["name"]
        assert type(event["pid"]) is int and type(event["tid"]) is int and isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            named[event["name"]].add((event["pid"], event["tid"]))
            continue
        assert isinstance(event["ts"], (int, float)) and isinstance(event["cat"], str)
        assert (event["pid"], event["tid"]) in named["thread_name"] and (event["pid"], 0) in named["process_name"]
        assert event["ph"] != "X" or event["dur"] >= 0
        assert event["ph"] != "i" or event["s"] in ("g", "p", "t")
    return trace


def spans_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def parents_of(trace: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, name of the span around it) in the order of beginning; AssertionError where two overlap in part."""
    found = []
    rows = defaultdict(list)
    for event in spans_of(trace):
        start = round(event["ts"] * 1000)
        rows[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000), event["name"]))
    for row in rows.values():
        around: list[tuple[int, int, str]] = []
        for start, end, name in sorted(row, key=lambda one: (one[0], -one[1])):
            while around and around[-1][1] <= start:
                around.pop()
            assert not around or end <= around[-1][1], f"{name} ends after {around[-1][2]}, in which it began"
            found.append((name, around[-1][2] if around else ""))
            around.append((start, end, name))
    return found
