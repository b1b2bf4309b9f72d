"""The user's words and lines as the page takes them: clean, of bounded length, never markup of their own."""

from __future__ import annotations

import math

from gradwright.doctor.render.wording import UNSHOWABLE, clean, number
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location

LONGEST = 2_000  # characters of one piece of prose
WIDEST = 400  # characters of one line of code


def said(text: str, most: int = LONGEST) -> str:
    """One clean line of at most ``most`` characters; an ellipsis stands where more was.

    >>> said("a\\x00b\\n" + "c" * 10, most=6)
    'ab ccc…'
    """
    words = clean(text[: 4 * most])
    return words if len(words) <= most and len(text) <= 4 * most else words[:most] + "…"


def program(text: str, most: int = 50_000) -> str:
    """Text of several lines, to be copied: whole, but for characters that can't be shown.

    >>> program("x = 1\\r\\n\\ty\\u202e = 2")
    'x = 1\\n\\ty\\ufffd = 2'
    """
    lines = text[:most].replace("\r\n", "\n").split("\n")
    made = "\n".join("\t".join(UNSHOWABLE.sub("\ufffd", piece) for piece in line.split("\t")) for line in lines)
    return made if len(text) <= most else made + "\n…"


def place(at: Location | None) -> str:
    """``train.py:18:13``, the line alone where no column is known, "" where there is no place."""
    if at is None:
        return ""
    if at.line <= 0:
        return said(at.path, 300)
    return f"{said(at.path, 300)}:{at.line}" + (f":{at.column}" if at.end_line >= at.line else "")


def measured(value: float | None) -> str:
    """A number of four digits, ``-`` where there is none."""
    return "-" if value is None else number(value)


def times(before: float, after: float) -> str:
    """How many times less: ``1,567 times``, ``2.4 times``; "" where that says nothing.

    >>> times(14.1, 0.009), times(3, 2), times(1, 1), times(1, 0)
    ('1,567 times less', '1.5 times less', '', '')
    """
    if not (math.isfinite(before) and math.isfinite(after) and after > 0 and before > 0):
        return ""
    ratio = max(before / after, after / before)
    if ratio < 1.05 or not math.isfinite(ratio):
        return ""
    words = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")
    return f"{words} times {'less' if after < before else 'more'}"


def hundredths(part: float, whole: float, most: float = 100.0) -> float:
    """How much of the whole, for the width of a bar: from 0 to ``most``, and ``most`` where that is not known.

    >>> hundredths(1, 3), hundredths(5, 1), hundredths(0, 0), hundredths(float("inf"), float("inf"))
    (33.33, 100.0, 100.0, 100.0)
    """
    share = part / whole * 100 if whole > 0 and part >= 0 else most
    return round(min(share, most), 2) if math.isfinite(share) else most


def subject_names(report: Report) -> dict[str, str]:
    """What each subject's id is called."""
    return {subject.id: said(subject.name, 200) for subject in report.subjects}
