"""Docstrings as Markdown: their own form (STYLE: Shapes, Cost, Raises, doctests) becomes lists and code blocks."""

from __future__ import annotations

import itertools
import re
from typing import Any

import griffe

# What begins a line of its own below the text of a docstring.
_FIELDS = (
    "Shapes", "Shape", "Shapes, dtypes", "Dtype", "Dtypes", "Dtype, device", "Units", "Result", "Returns", "Cost",
    "Memory", "Raises", "Source", "Coupling", "Derivatives", "Dtype and device", "Shapes, dtypes, devices",
    "Shapes, dtypes, cost",
)  # fmt: skip
_FIELD = re.compile(rf"(?P<name>{'|'.join(sorted(map(re.escape, _FIELDS), key=len, reverse=True))}): +(?=\S)")
_ARGUMENT = re.compile(r"``[^`]+``(?:, ``[^`]+``)*(?: and ``[^`]+``)?: ")


class AsMarkdown(griffe.Extension):
    """Rewrites every docstring when it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """A docstring of ours as Markdown.

    >>> print(as_markdown("Twice ``x``. Shapes: any.  Cost: none."))
    Twice `x`.
    <BLANKLINE>
    - **Shapes**: any.
    - **Cost**: none.
    """
    paragraphs = re.split(r"\n\s*\n", docstring.strip("\n"))
    made: list[str] = []
    literal = False
    for paragraph in paragraphs:
        indented = all(line.startswith("    ") for line in paragraph.split("\n") if line.strip())
        if literal and indented:
            code = "\n".join(line[4:] for line in paragraph.split("\n"))
            if made and made[-1].startswith("```") and made[-1].endswith("\n```"):
                made[-1] = made[-1][: -len("\n```")] + f"\n\n{code}\n```"
            else:
                made.append(f"```{'text' if '──' in code else 'python'}\n{code}\n```")
            continue
        literal = False
        if paragraph.lstrip().startswith(">>>"):
            made.append(f"```pycon\n{paragraph.strip()}\n```")
            continue
        literal = paragraph.endswith("::")
        if literal:
            paragraph = paragraph[:-2].rstrip() + ("" if paragraph.strip() == "::" else ":")
        if paragraph:
            made.append(_text(paragraph))
    return "\n\n".join(made)


def _text(paragraph: str) -> str:
    """A paragraph, its fields and arguments as a list."""
    items: list[list[str]] = [[]]
    for line in paragraph.split("\n"):
        rest = line.strip() if not line.startswith(("- ", "* ", "|")) else line
        for part in _split(rest):
            if _ARGUMENT.match(part) or _FIELD.match(part):
                items.append([])
            items[-1].append(part)
    texts = ["\n".join(item) for item in items]
    shown = [texts[0]] if texts[0] else []
    listed = "\n".join(
        "- " + _FIELD.sub(r"**\g<name>**: ", text, count=1).replace("\n", "\n    ") for text in texts[1:]
    )
    shown += [listed] if listed else []
    return re.sub(r"``(?!`)(.+?)``", r"`\1`", "\n\n".join(shown), flags=re.DOTALL)


def _split(line: str) -> list[str]:
    """Fields that follow one another in one line."""
    starts = [found.start() for found in _FIELD.finditer(line)]
    starts = [at for at in starts if at == 0 or line[:at].rstrip().endswith(".")]
    edges = sorted({0, *starts, len(line)})
    return [line[a:b].rstrip() for a, b in itertools.pairwise(edges) if line[a:b].strip()] or [line]
