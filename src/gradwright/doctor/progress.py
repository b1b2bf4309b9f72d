"""What is going on, on one line of a terminal."""

from __future__ import annotations

from typing import TextIO


class ProgressLine:
    """One line on a terminal, rewritten; nothing elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._on = stream, stream.isatty()
        self._last = 0.0
        self._shown = False

    def show(self, doing: str, seconds: float) -> None:
        """``doing`` since ``seconds``; at most twice a second."""
        if self._on and seconds - self._last > 0.5:
            self._last, self._shown = seconds, True
            self._stream.write(f"\r\x1b[2Kgradwright: {doing} · {seconds:.0f} s"[:110])
            self._stream.flush()

    def clear(self) -> None:
        """Take it off, before something else is written."""
        if self._shown:
            self._shown = False
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
