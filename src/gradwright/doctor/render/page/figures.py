"""Plots as data: what plotly is to draw, as JSON that is no script, and the same numbers as a table beside it.

Colours are named (``@bad``) and looked up in the page's style when a plot is drawn, so that plots follow its theme.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from gradwright.doctor.render.page.text import said
from gradwright.doctor.render.wording import number

_ROWS = 400  # of a table beside a plot
# What would end the script element, open a comment in it, or end a line of JavaScript.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Table:
    """``left_out``: rows of the end that the page has no room for."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot: ``title`` says what is seen, ``data`` is plotly's traces and layout, ``height`` in pixels."""

    title: str
    data: Markup
    table: Table
    height: int = 260


def table(head: Iterable[str], rows: Sequence[Sequence[object]], most: int = _ROWS) -> Table:
    """Floats with four digits, ``None`` as ``-``."""
    made = tuple(tuple(_cell(value) for value in row) for row in rows[:most])
    return Table(tuple(said(one, 200) for one in head), made, max(0, len(rows) - most))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else said(str(value), 200)


def figure(
    title: str, traces: Sequence[dict[str, Any]], layout: dict[str, Any], beside: Table, height: int = 260
) -> Figure:
    """``traces`` and ``layout`` as plotly's reference has them; a number that is not finite becomes a gap."""
    return Figure(title, script_data({"data": list(traces), "layout": layout}), beside, height)


def label(text: str, most: int = 48) -> str:
    """A text inside a plot: plotly reads some markup, and this has none."""
    return said(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def script_data(value: object) -> Markup:
    """JSON for ``<script type="application/json">``.

    >>> script_data({"a</script>": [1.0, float("nan")]})
    Markup('{"a\\\\u003c/script\\\\u003e":[1.0,null]}')
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_UNSAFE))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
