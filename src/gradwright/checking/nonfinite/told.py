"""Where it begins, as text: plain letters, no colour."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from gradwright.checking.nonfinite.looks import word
from gradwright.checking.nonfinite.origins import NonfiniteBegin

_WIDTH = 100


def told(begin: NonfiniteBegin) -> str:
    """The report: what, where, why, what followed, what to do."""
    place = begin.place
    path = os.path.relpath(place.path) if place.path.startswith(str(Path.cwd()) + os.sep) else place.path
    at = f"{path}:{place.line}" + (f":{place.column}" if place.end_line else "")
    function = f", in {place.function}" if place.function and place.function != "<module>" else ""
    parts = [
        ("where", f"{at}{function}" + (f": {place.text}" if place.text else "")),
        ("what", what(begin)),
        ("why", begin.why),
        *(("then", text) for text in begin.then),
        *(("do", hint) for hint in begin.hints),
    ]
    return "\n".join([f"gradwright: {title(begin)}", *(_line(head, text) for head, text in parts)]) + "\n"


def title(begin: NonfiniteBegin) -> str:
    """In one line."""
    value = "NaN" if begin.value == "nan" else begin.value
    if begin.phase == "given":
        return f"{begin.operation} held {value} from the start"
    if begin.phase == "backward":
        return f"{value} begins in the backward of {begin.operation}"
    phase = {"forward": " (forward)", "inside backward": " (in a backward's own code)"}.get(begin.phase, "")
    return f"{value} begins in {begin.operation}{phase}"


def what(begin: NonfiniteBegin) -> str:
    """The entry, and the values there."""
    value = "NaN" if begin.value == "nan" else begin.value
    entry = f"entry {list(begin.entry)} of {list(begin.shape)}" if begin.entry else "its value"
    whose = {"backward": "the gradient it returns: ", "given": "", "optimizer step": ""}
    found = f"{whose.get(begin.phase, 'its result: ')}{entry} is {value}"
    values = [f"{name} {word(number)}" for name, number in begin.operands]
    if begin.upstream is not None:
        values.append(f"gradient that arrives {word(begin.upstream)}")
    return found + (f" ({', '.join(values)})" if values else "")


def _line(head: str, text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=f"  {head:6} ", subsequent_indent=" " * 9, break_on_hyphens=False)
