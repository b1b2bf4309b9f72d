"""Signs of life while Functions are tried: one line that is rewritten on a terminal, one line in all elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradwright.doctor.session.journal import Journal

Progress = Callable[[str], None]


class TellingJournal(Journal):
    """A journal whose signs of life are shown at once, in words."""

    def __init__(self, path: Path, tell: Progress) -> None:
        super().__init__(path)
        self._tell = tell

    def progress(self, stage: str, detail: str = "", done: int = 0, total: int = 0) -> None:
        self._tell(f"{stage} {detail}".strip() + (f" ({done + 1} of {total})" if total else ""))


def on_a_fresh_line(terminal: Any) -> None:
    """After pytest's dots, which under ``-q`` its own ``ensure_newline`` knows nothing of."""
    terminal.ensure_newline()
    if terminal._tw.width_of_current_line:
        terminal.line("")


def progress_of(terminal: Any) -> Progress:
    """Through pytest's own reporter, whose stream no capturing reaches; silent where there is none (a worker)."""
    if terminal is None:
        return lambda text: None
    said: list[str] = []

    def tell(text: str) -> None:
        if not said:
            on_a_fresh_line(terminal)
        if getattr(terminal, "isatty", False):
            terminal.rewrite(f"gradwright: {text}"[: max(20, terminal._tw.fullwidth - 1)], erase=True)
        elif not said:
            terminal.write_line("gradwright: trying the Functions that the tests called")
        said.append(text)

    return tell
