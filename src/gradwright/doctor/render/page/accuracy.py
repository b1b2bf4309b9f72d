"""The error of each gradient that was judged: as a table, and on a log scale beside what was allowed."""

from __future__ import annotations

import math

from gradwright.doctor.render.page.figures import Figure, Table, figure, label, table
from gradwright.doctor.render.page.text import measured, said
from gradwright.doctor.render.wording import Cell, cause
from gradwright.doctor.session.facts import GradientVerdict

_ROWS = 120  # of the table
_PLOTTED = 24  # rows of the plot
_LEAST, _MOST = 1e-18, 1e3  # where a plot on a log scale has zero, and what is not finite
_TONES = {"right": "@good", "wrong": "@bad", "surrogate": "@doubt", "unknown": "@doubt"}


def accuracy(verdicts: list[GradientVerdict], name: str) -> tuple[Table | None, Figure | None]:
    """Neither where nothing was judged; no plot of a single error, or of none, which the table says as well."""
    if not verdicts:
        return None, None
    names = list(dict.fromkeys(said(name, 60) for verdict in verdicts for name, _ in verdict.cotangents))[:12]
    head = ("with respect to", "on", "verdict", "error", "allowed", *(f"under {name}" for name in names), "judged by")
    beside = table(head, [_row(verdict, names) for verdict in verdicts], _ROWS)
    errors = [error for verdict in verdicts[:_PLOTTED] for _, error in _points(verdict)]
    return beside, _figure(verdicts[:_PLOTTED], name, beside) if len(errors) > 1 and any(errors) else None


def verdict_cell(verdict: GradientVerdict) -> Cell:
    if verdict.verdict == "wrong":
        return Cell("bad", "WRONG", f": {said(cause(verdict), 300)}")
    if verdict.verdict == "right":
        return Cell("good", "right", f" ({verdict.checks} checks)" if verdict.checks > 1 else "")
    reason = said(verdict.reason, 300)
    return Cell("doubt", verdict.verdict, f": {reason}" if reason else "")


def _row(verdict: GradientVerdict, names: list[str]) -> tuple[object, ...]:
    under = {said(name, 60): error for name, error in verdict.cotangents}
    return (
        _input(verdict),
        verdict.tried_on or verdict.specimen,
        str(verdict_cell(verdict)),
        _error(verdict),
        measured(verdict.tolerance or None),
        *(measured(under.get(name)) for name in names),
        ", ".join(verdict.oracles) or "-",
    )


def _points(verdict: GradientVerdict) -> tuple[tuple[str, float], ...]:
    return verdict.cotangents or (("error", verdict.error),)


def _error(verdict: GradientVerdict) -> str:
    return "-" if verdict.verdict == "unknown" and not verdict.error else measured(verdict.error)


def _input(verdict: GradientVerdict) -> str:
    return said(verdict.input_name, 60) or f"input {verdict.input_index}"


def _figure(verdicts: list[GradientVerdict], name: str, beside: Table) -> Figure:
    rows = range(len(verdicts))
    errors = [error for verdict in verdicts for _, error in _points(verdict)]
    traces = []
    for kind in dict.fromkeys(verdict.verdict for verdict in verdicts):
        points = [
            (_on_scale(error), at, label(f"{under}: {measured(error)}", 90))
            for at, verdict in zip(rows, verdicts, strict=True)
            if verdict.verdict == kind
            for under, error in _points(verdict)
        ]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [x for x, _, _ in points],
                "y": [y for _, y, _ in points],
                "text": [words for _, _, words in points],
                "hoverinfo": "text",
                "marker": {"color": _TONES[kind], "size": 9, "symbol": "x" if kind == "wrong" else "circle"},
            }
        )
    allowed = [(verdict.tolerance, at) for at, verdict in zip(rows, verdicts, strict=True) if verdict.tolerance > 0]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "allowed",
            "x": [_on_scale(x) for x, _ in allowed],
            "y": [y for _, y in allowed],
            "text": [f"allowed: {measured(x)}" for x, _ in allowed],
            "hoverinfo": "text",
            "marker": {
                "symbol": "line-ns-open",
                "size": 18,
                "color": "@muted",
                "line": {"width": 2, "color": "@muted"},
            },
        }
    )
    texts = [label(text, 24) for text in _rows_named(verdicts)]
    layout = {
        "xaxis": {
            "type": "log",
            "title": {"text": "error, by the largest entry"},
            "range": [-18.7, 3.4 if any(not math.isfinite(error) for error in errors) else 1.2],
            "tickvals": [_LEAST, *(10.0**power for power in (-15, -10, -5, 0)), _MOST],
            "ticktext": ["0", *(f"1e{power}" if power else "1" for power in (-15, -10, -5, 0)), "inf"],
        },
        "yaxis": {
            "type": "linear",
            "tickvals": list(rows),
            "ticktext": texts,
            "autorange": "reversed",
            "zeroline": False,
        },
    }
    title = f"error of {name}'s gradients, and what was allowed"
    return figure(title, traces, layout, beside, 110 + 26 * len(verdicts))


def _rows_named(verdicts: list[GradientVerdict]) -> list[str]:
    """The input alone where each was tried once; the numbers beside the plot say on what."""
    inputs = [_input(verdict) for verdict in verdicts]
    if len(set(inputs)) == len(inputs):
        return inputs
    return [f"{name}  {verdict.tried_on or verdict.specimen}" for name, verdict in zip(inputs, verdicts, strict=True)]


def _on_scale(error: float) -> float:
    return _MOST if not math.isfinite(error) else min(max(abs(error), _LEAST), _MOST)
