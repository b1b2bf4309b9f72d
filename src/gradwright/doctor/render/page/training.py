"""How training went: losses, the gradients that reach each layer, units that died, graphs that were kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradwright.doctor.render.page.figures import Figure, figure, label, table
from gradwright.doctor.render.page.text import hundredths, place, said, subject_names
from gradwright.doctor.render.wording import counted, number
from gradwright.doctor.session.facts import DeadUnits, GradientFlow, GraphsKept, LossValues
from gradwright.doctor.session.model import Report

_EACH = 40  # plots of one kind
_LEAST = 1e-38  # below it a plot on a log scale shows nothing


@dataclass(frozen=True, slots=True)
class Dead:
    layer: str
    dead: int
    units: int
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class Training:
    losses: tuple[Figure, ...]
    flow: tuple[Figure, ...]
    dead: tuple[Dead, ...]
    graphs: tuple[Figure, ...]

    @property
    def any(self) -> bool:
        return bool(self.losses or self.flow or self.dead or self.graphs)


def training(report: Report) -> Training:
    names = subject_names(report)
    losses = [fact for fact in report.of(LossValues) if len(fact.history) + len(fact.window) > 1]
    flows = [fact for fact in report.of(GradientFlow) if fact.layers and fact.looked_at]
    kept = [fact for fact in report.of(GraphsKept) if fact.history]
    return Training(
        losses=tuple(_losses(fact, names) for fact in losses[:_EACH]),
        flow=tuple(one for fact in flows[:_EACH] for one in _flow(fact)),
        dead=tuple(_dead(fact) for fact in _told(report)),
        graphs=tuple(_graphs(fact, names) for fact in kept[:_EACH]),
    )


# --- losses ----------------------------------------------------------------------------------------------------------


def _losses(fact: LossValues, names: dict[str, str]) -> Figure:
    known = list(_known(fact))
    finite = [value for _, value in known if math.isfinite(value)]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(known) <= 60 else "lines",
            "name": "loss",
            "x": [step for step, _ in _with_gaps(known)],
            "y": [value for _, value in _with_gaps(known)],
            "connectgaps": False,
            "line": {"color": "@accent", "width": 2},
            "marker": {"color": "@accent", "size": 5 if len(finite) > 3 else 9},
        }
    ]
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "step (from 0)"},
            "rangemode": "tozero",
            **({"dtick": 1} if known[-1][0] <= 12 else {}),
        },
        "yaxis": {"title": {"text": "loss"}, **_scale(finite)},
    }
    broken = [step for step, value in known if not math.isfinite(value)]
    if broken:
        low = min(finite, default=0.0)
        mark = {"symbol": "x", "color": "@bad", "size": 9}
        traces.append({"type": "scatter", "mode": "markers", "name": "not finite", "marker": mark,
                       "x": broken, "y": [low] * len(broken), "hoverinfo": "x+name"})  # fmt: skip
    title = f"loss, {said(names.get(fact.subject, ''), 200) or 'by step'}"
    first = fact.first_nonfinite_step
    if first is not None:
        said_value = said(fact.first_nonfinite, 40) or "not finite"
        title += f": {said_value} from step {first} on"
        layout["shapes"] = [
            {"type": "line", "xref": "x", "x0": first, "x1": first, "yref": "paper", "y0": 0, "y1": 1,
             "line": {"color": "@bad", "width": 2, "dash": "dot"}}
        ]  # fmt: skip
        early = 2 * first < max(first, known[-1][0])  # beside the line, where there is room; above it is the legend
        layout["annotations"] = [
            {"x": first, "xref": "x", "y": 1, "yref": "paper", "text": label(f"{said_value} at step {first}"),
             "showarrow": False, "xanchor": "left" if early else "right", "xshift": 6 if early else -6,
             "yanchor": "top", "font": {"color": "@bad"}}
        ]  # fmt: skip
    rows = known if first is None or any(step == first for step, _ in known) else [*known, (first, math.nan)]
    words = [(step, fact.first_nonfinite or "nan" if not math.isfinite(value) else value) for step, value in rows]
    return figure(title, traces, layout, table(("step", "loss"), words, 120))


def _known(fact: LossValues) -> Iterator[tuple[int, float]]:
    yield from enumerate(fact.history)
    first = (fact.first_nonfinite_step or 0) - len(fact.window)
    yield from ((step, value) for step, value in enumerate(fact.window, first) if step >= len(fact.history))


def _with_gaps(known: list[tuple[int, float]]) -> Iterator[tuple[float, float]]:
    """A line breaks where steps in between are not known."""
    before = None
    for step, value in known:
        if before is not None and step > before + 1:
            yield before + 0.5, math.nan
        yield step, value
        before = step


def _scale(values: list[float]) -> dict[str, Any]:
    """A log scale where values span three decades and all are positive."""
    if values and min(values) > 0 and max(values) / min(values) > 1e3:
        return {"type": "log", "exponentformat": "power"}
    return {"type": "linear"}


# --- gradients by layer ----------------------------------------------------------------------------------------------


def _flow(fact: GradientFlow) -> list[Figure]:
    layers = [label(name, 36) for name in fact.layers]
    at = f" (made at {place(fact.location)})" if fact.location else ""
    named = [said(name, 100) for name in fact.layers]
    rows = [(step, *row) for step, row in zip(fact.looked_at, fact.ratios, strict=False)]
    beside = table(("step", *named), rows, 60)
    powers = [[_log(row[layer]) if layer < len(row) else None for row in fact.ratios] for layer in range(len(layers))]
    steps = [str(step) for step in fact.looked_at]
    heat = {
        "type": "heatmap",
        "z": powers,
        "x": list(range(len(steps))),
        "y": list(range(len(layers))),
        "text": [
            [number(row[layer]) if layer < len(row) else "" for row in fact.ratios] for layer in range(len(layers))
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "colorscale": "@heat",
        "colorbar": {"title": {"text": "power of 10", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "xgap": 1,
        "ygap": 1,
    }
    ticks = {"tickvals": list(range(len(layers))), "ticktext": layers}
    across = {"tickvals": list(range(len(steps))), "ticktext": steps, "title": {"text": "step"}, "showgrid": False}
    made = [
        figure(
            f"norm of each layer's gradient by that of its weight, the loss above{at}",
            [heat],
            {"xaxis": across, "yaxis": {**ticks, "autorange": "reversed", "showgrid": False}},
            beside,
            130 + 22 * len(layers),
        )
    ]
    lines = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"step {step}",
            "x": list(range(len(row))),
            "y": [value if math.isfinite(value) and value > _LEAST else None for value in row],
            "connectgaps": False,
            "line": {"color": f"@ramp{_ramp(order, len(fact.ratios))}", "width": 2},
            "marker": {"size": 5},
        }
        for order, (step, row) in enumerate(zip(fact.looked_at, fact.ratios, strict=False))
    ]
    layout = {
        "xaxis": {**ticks, "title": {"text": "from the loss to the input"}, "tickangle": -40},
        "yaxis": {"type": "log", "exponentformat": "power", "title": {"text": "gradient / weight"}},
    }
    made.append(figure("the same, a line per step, early steps pale", lines, layout, beside, 320))
    return made


def _log(value: float) -> float | None:
    return math.log10(value) if math.isfinite(value) and value > _LEAST else None


def _ramp(order: int, count: int) -> int:
    """Which of five shades, from early to late."""
    return round(order / max(1, count - 1) * 4)


# --- units and graphs ------------------------------------------------------------------------------------------------


def _told(report: Report) -> list[DeadUnits]:
    """Those that a finding rests on, where there are such: of the same units there may be an earlier look."""
    facts = list(report.of(DeadUnits))
    cited = {fact for finding in report.findings for fact in finding.evidence}
    return [fact for fact in facts if fact.id in cited] or facts


def _dead(fact: DeadUnits) -> Dead:
    words = f"no gradient at the last {counted(fact.looked_at, 'step')} up to step {fact.last_step}"
    if fact.died:
        words += f"; {fact.died:,} of them had one before, the last at step {fact.alive_at}"
    if fact.location is not None:
        words += f"; made at {place(fact.location)}"
    named = f"{said(fact.layer, 200)}, before {said(fact.activation, 60)}"
    return Dead(named, fact.dead, fact.units, hundredths(fact.dead, fact.units), words)


def _graphs(fact: GraphsKept, names: dict[str, str]) -> Figure:
    trace = {
        "type": "scatter",
        "mode": "lines+markers" if len(fact.history) <= 60 else "lines",
        "name": "graphs",
        "x": [step for step, _ in fact.history],
        "y": [kept for _, kept in fact.history],
        "line": {"color": "@accent", "width": 2},
        "fill": "tozeroy",
        "fillcolor": "@wash",
    }
    held = f", held by {said(fact.variable, 100)}" if fact.variable else ""
    layout = {
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"title": {"text": "graphs of earlier steps"}, "rangemode": "tozero"},
    }
    title = f"graphs of earlier steps that are still alive{held}" + (
        f" ({place(fact.location)})" if fact.location else ""
    )
    return figure(title, [trace], layout, table(("step", "graphs of earlier steps"), fact.history, 120))
