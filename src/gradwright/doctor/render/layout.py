"""Lines of a terminal, or of a pipe without colour. Laid out with rich; nothing is read as rich's markup."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gradwright.doctor.session.model import Severity

NARROWEST = 48
SEVERITY: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}

_GLUE = "\ufdd0"  # no character: stands for the blank between a number and its unit while lines are broken
_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|us|min|h|%|B|kB|MB|GB)(?!\w))")


class Layout:
    """One width, with or without colour. Below ``NARROWEST`` cells that is used instead."""

    def __init__(self, *, width: int, color: bool) -> None:
        self.width = max(width, NARROWEST)
        self._color = color
        self._stream = io.StringIO()
        self.console = Console(
            file=self._stream,
            width=self.width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            force_jupyter=False,
            force_interactive=False,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def printed(self, lines: Iterable[Text]) -> str:
        """The lines as text that ends in a newline."""
        self._stream.seek(0)
        self._stream.truncate()
        for line in lines:
            self.console.print(line, soft_wrap=True)
        # Blanks before the end of a line, where colour ends too: nobody sees them, diffs and goldens do.
        return re.sub(r" +((?:\x1b\[[0-9;]*m)*)$", r"\1", self._stream.getvalue(), flags=re.MULTILINE)

    def hanging(self, first: Text, body: Text, indent: int) -> Iterator[Text]:
        """``body`` after ``first``, wrapped, its further lines indented by ``indent``."""
        # Where the lead is longer than the indent, it is wrapped as the beginning of the first word, then put back.
        lead = max(0, cell_len(first.plain) - indent)
        whole = Text.assemble("x" * lead, body)
        whole.plain = _UNIT.sub(_GLUE, whole.plain)
        for number, line in enumerate(whole.wrap(self.console, self.width - indent, overflow="fold")):
            line.plain = line.plain.replace(_GLUE, " ")
            yield Text.assemble(" " * indent, line) if number else Text.assemble(first, line[lead:])
