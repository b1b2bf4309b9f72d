"""A comparison as a terminal shows it, and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from gradwright.doctor.comparing.comparison import Comparison, FindingChange, GradientChange, TimeChange, Turn
from gradwright.doctor.render.layout import SEVERITY, Layout
from gradwright.doctor.render.wording import clean, counted, seconds
from gradwright.doctor.session.codec import encode
from gradwright.doctor.session.place import Location

_TURNS: dict[Turn, tuple[str, str]] = {
    "worse": ("worse", "bold red"),
    "better": ("better", "bold green"),
    "neutral": ("otherwise", "bold"),
}
_HOW = {
    "new": "new",
    "gone": "no longer found",
    "suppressed": "suppressed by a remark",
    "unexamined": "no longer examined",
}
_LEAD = 4


def as_json(comparison: Comparison) -> str:
    """The fields of :class:`Comparison`, and ``worse``."""
    return json.dumps({"worse": comparison.worse, **encode(comparison)}, indent=1, allow_nan=False) + "\n"


def as_text(comparison: Comparison, *, width: int, color: bool) -> str:
    """What is worse, then what is better, then the rest; times apart."""
    layout = Layout(width=width, color=color)
    return layout.printed(_lines(layout, comparison))


def _lines(layout: Layout, comparison: Comparison) -> Iterator[Text]:
    for words in comparison.cautions:
        yield from layout.hanging(Text("not alike  ", "yellow"), Text(clean(words)), 11)
    if comparison.cautions:
        yield Text()
    for turn, (title, style) in _TURNS.items():
        lines = list(_of(layout, comparison, turn))
        if lines:
            yield Text(title, style)
            yield from lines
            yield Text()
    if comparison.times:
        yield Text("time per call, of one run each: noisy" + _gate(comparison), "bold")
        for change in comparison.times:
            yield from layout.hanging(Text(" " * 2), _time(change), _LEAD)
        yield Text()
    yield from layout.hanging(Text(), Text(_summary(comparison)), 2)


def _gate(comparison: Comparison) -> str:
    return "; slower is worse (--gate-times)" if comparison.times_gate else "; this decides nothing"


def _of(layout: Layout, comparison: Comparison, turn: Turn) -> Iterator[Text]:
    for change in comparison.findings:
        if change.turn == turn:
            yield from layout.hanging(Text("  "), _finding(change), _LEAD)
    for verdict in comparison.gradients:
        if verdict.turn == turn:
            yield from layout.hanging(Text("  "), _gradient(verdict), _LEAD)
    for item in comparison.unexamined:
        if item.turn == turn:
            why = f" ({clean(item.why)})" if item.why else ""
            yield from layout.hanging(Text("  "), Text(f"no longer examined: {clean(item.what)}{why}"), _LEAD)


def _finding(change: FindingChange) -> Text:
    found = change.shown
    what = _HOW.get(change.how, "")
    severity: list[tuple[str, str]] = [(found.severity, SEVERITY[found.severity])]
    if change.how == "severity" and change.old is not None:
        severity = [(f"{change.old.severity} -> ", ""), *severity]
    where = _at(found.location)
    if change.how == "moved" and change.old is not None:
        where = f"{_at(change.old.location)} -> {where}"
    if change.fix_made:
        what = "its fix was made" + (", but it was not examined" if change.how == "unexamined" else "")
    if change.old is not None and change.new is not None and change.old.subject != change.new.subject:
        what = f"of {clean(change.old.subject)}, which is {clean(change.new.subject)} now"
    return Text.assemble(
        (found.code, "bold"),
        " ",
        *severity,
        "  ",
        (where, "bold"),
        "  ",
        clean(found.message),
        f"  ({what})" if what else "",
    )


def _at(location: Location) -> str:
    return clean(str(location) if location.line > 0 else location.path)


def _gradient(change: GradientChange) -> Text:
    of = f" in {clean(change.input)}" if change.input else ""
    why = f" ({clean(change.why)})" if change.why else ""
    return Text.assemble(
        "gradient of ", (clean(change.function), "bold"), f"{of}: {clean(change.before)} -> {clean(change.after)}{why}"
    )


def _time(change: TimeChange) -> Text:
    times = f"{seconds(change.before_seconds)} -> {seconds(change.after_seconds)}"
    factor = max(change.factor, 1 / change.factor if change.factor else math.inf)
    how = f"{factor:,.{0 if factor >= 10 else 1}f} times as " + ("long" if change.factor >= 1 else "fast")
    inputs = {True: "", False: ", on other inputs", None: ""}[change.same_inputs]
    return Text.assemble((f"{clean(change.function)}.{change.phase}", "bold"), f": {times} ({how}{inputs})")


def _summary(comparison: Comparison) -> str:
    turns = Counter(comparison.turns)
    worse = f"{counted(turns['worse'], 'thing is', 'things are')} worse" if comparison.worse else "nothing is worse"
    parts = [worse]
    if turns["better"]:
        parts.append(f"{turns['better']:,} better")
    if turns["neutral"]:
        parts.append(f"{turns['neutral']:,} otherwise changed")
    made = sum(change.fix_made for change in comparison.findings)
    if made:
        parts.append(counted(made, "fix was made", "fixes were made"))
    moved = sum(change.how == "moved" for change in comparison.findings)
    parts.append(f"{counted(comparison.same, 'finding')} as before" + (f" ({moved:,} moved)" if moved else ""))
    return " · ".join(parts)
