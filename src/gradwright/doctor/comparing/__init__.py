"""Two sessions, compared: what got better, what got worse, what can't be compared. Reads only the sessions."""

from gradwright.doctor.comparing.compare import FACTOR, compare
from gradwright.doctor.comparing.comparison import (
    Comparison,
    FindingChange,
    GradientChange,
    TimeChange,
    Unexamined,
)
from gradwright.doctor.comparing.runs import incomparable

__all__ = [
    "FACTOR",
    "Comparison",
    "FindingChange",
    "GradientChange",
    "TimeChange",
    "Unexamined",
    "compare",
    "incomparable",
]
