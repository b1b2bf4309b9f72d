"""A gradient report as a table: layers, their parameters below them, and the flags in words."""

from __future__ import annotations

import math

from gradwright.functions.tap import layout
from gradwright.functions.tap.flags import WORDS
from gradwright.functions.tap.numbers import counted, number, share, tensor_label
from gradwright.functions.tap.records import Statistics
from gradwright.functions.tap.report import GradientReport, LayerRow, ParameterRow

# Beyond so many parameters the table shows layers; and of lines, the first and the flagged ones.
MOST_PARAMETERS = 80
# How many flags of one kind are told with their figures; of the others, the names are.
_TOLD = 4
_HEADS = ("weight", "gradient", "ratio", "min", "max", "zero", "NaN", "inf")


def as_text(report: GradientReport, width: int) -> str:
    return layout.as_text(table(report), width)


def as_html(report: GradientReport) -> str:
    return layout.as_html(table(report))


def table(report: GradientReport) -> layout.Table:
    """One line per layer and parameter; a layer with one parameter is one line."""
    axis = layout.Axis.of(row.gradient for row in report.rows if row.gradient is not None)
    columns = (
        layout.Column("", "left"),
        layout.Column("parameter", "left", least=16),
        layout.Column("tensor", "left", least=9),
        *(layout.Column(head) for head in _HEADS),
        layout.Column(axis.head, "bars"),
    )
    notes: list[str] = []
    if len(report.rows) <= MOST_PARAMETERS:
        lines = [line for layer in report.layers for line in _block(layer, axis)]
    else:
        shown = _chosen(report.layers)
        lines = [_layer(layer, axis) for layer in shown]
        notes.append(f"the parameters of each layer together; each alone: .rows ({len(report.rows)} parameters)")
        if len(shown) < len(report.layers):
            notes.append(f"{len(report.layers) - len(shown)} more layers without a flag: .layers has them")
    return layout.Table(_title(report), columns, tuple(lines), (*_flags(report), *notes, *_notes(report)))


def _title(report: GradientReport) -> str:
    if report.rows and not any(row.gradient for row in report.rows):
        return f"{report.subject}: no parameter has a gradient; read it after backward() and before zero_grad()"
    frozen = sum(not row.requires_grad for row in report.rows)
    parts = [counted(len(report.rows), "parameter")]
    parts += [f"{frozen} frozen"] if frozen else []
    for word in WORDS:
        count = sum(any(flag.word == word for flag in row.flags) for row in report.rows)
        parts += [f"{count} {word}"] if count else []
    parts += ["no flag"] if report.rows and not report.flagged else []
    parts += [] if math.isnan(report.norm) else [f"gradient norm {number(report.norm)}"]
    return f"{report.subject}: {', '.join(parts)}"


def _block(layer: LayerRow, axis: layout.Axis) -> list[layout.Line]:
    if len(layer.parameters) == 1:
        return [_parameter(layer.parameters[0], axis, layer.parameters[0].name)]
    own = len(layer.name) + 1 if layer.name else 0
    return [_layer(layer, axis), *(_parameter(row, axis, "  " + row.name[own:]) for row in layer.parameters)]


def _layer(layer: LayerRow, axis: layout.Axis) -> layout.Line:
    flagged = any(row.flags for row in layer.parameters)
    name = " ".join(part for part in (layer.name, layer.kind) if part) or "(no layer)"
    figures = _figures(layer.parameter, layer.gradient, layer.ratio, axis, _instead(*layer.parameters))
    return layout.Line(("!" if flagged else "", name, "", *figures), "head")


def _parameter(row: ParameterRow, axis: layout.Axis, name: str) -> layout.Line:
    figures = _figures(row.parameter, row.gradient, row.ratio, axis, _instead(row))
    label = tensor_label(row.dtype, row.shape)
    return layout.Line(("!" if row.flags else "", name, label, *figures), "bad" if row.flags else "")


def _instead(*rows: ParameterRow) -> str:
    """What stands where there is no gradient."""
    return "none" if any(row.requires_grad for row in rows) else "frozen"


def _figures(
    parameter: Statistics, gradient: Statistics | None, ratio: float, axis: layout.Axis, instead: str
) -> tuple[str, ...]:
    if gradient is None:
        return (number(parameter.norm), instead, *[""] * 6, axis.bars(None))
    counts = (gradient.zeros, gradient.nans, gradient.infs)
    return (
        number(parameter.norm),
        number(gradient.norm),
        number(ratio),
        number(gradient.minimum),
        number(gradient.maximum),
        *(share(count, gradient.elements) for count in counts),
        axis.bars(gradient),
    )


def _chosen(layers: tuple[LayerRow, ...]) -> tuple[LayerRow, ...]:
    """At most ``MOST_PARAMETERS`` layers in their order: those with a flag, then the first."""
    ranked = sorted(enumerate(layers), key=lambda item: not any(row.flags for row in item[1].parameters))
    kept = {at for at, _ in ranked[:MOST_PARAMETERS]}
    return tuple(layer for at, layer in enumerate(layers) if at in kept)


def _flags(report: GradientReport) -> list[str]:
    """The worst of each kind in words, the names of the others."""
    if not any(row.gradient for row in report.rows):
        return []  # the title says it
    said: list[str] = []
    worst = report.worst(len(report.rows))
    for word in WORDS:
        those = [(row.name, flag.why) for row in worst for flag in row.flags if flag.word == word]
        said += [f"! {word}: {name}: {why}" for name, why in those[:_TOLD]]
        if len(those) > _TOLD:
            names = ", ".join(name for name, _ in those[_TOLD:MOST_PARAMETERS])
            more = f", and {len(those) - MOST_PARAMETERS} more" if len(those) > MOST_PARAMETERS else ""
            said.append(f"! {word} too: {names}{more}")
    return said


def _notes(report: GradientReport) -> list[str]:
    notes = [f"{row.name} is also {', '.join(row.also)}" for row in report.rows if row.also]
    if any(row.gradient is not None and row.gradient.nans + row.gradient.infs for row in report.rows):
        notes.append("norm, min and max are those of the finite entries")
    if report.rows:
        notes.append("weight, gradient: norms; min to inf, and the bars: of the gradient")
    return notes + [f"not seen: {name}: {why}" for name, _, why, _ in report.not_seen]
