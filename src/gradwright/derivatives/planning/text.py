"""Seconds, bytes and tables, as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def seconds_told(seconds: float) -> str:
    """
    >>> seconds_told(0.00123), seconds_told(2.5e-5), seconds_told(12.0)
    ('1.2 ms', '25 us', '12 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds / 1e-6:.0f} us"


def bytes_told(count: float) -> str:
    """
    >>> bytes_told(512), bytes_told(3 << 20), bytes_told(5.5 * 2**30)
    ('0.5 KiB', '3.0 MiB', '5.5 GiB')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1024:.1f} KiB"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need; figures to the right, the first two and the last to the left.

    >>> print(table([(">", "sum", "12", "quick"), ("", "loop", "1", "")]))
    > sum   12  quick
      loop   1
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        told = [
            cell.ljust(width) if place < 2 or place == len(row) - 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((told[0] + " " + "  ".join(told[1:])).rstrip())
    return "\n".join(lines)
