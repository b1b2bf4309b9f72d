"""Show what flows through a network or a Function, forward and backward, in place of print statements."""

from gradwright.functions.tap.placed import Tap, tap
from gradwright.functions.tap.records import NotSeen, Octave, Passage, Row, Statistics
from gradwright.functions.tap.report import GradientReport, LayerRow, ParameterRow, gradient_report
from gradwright.functions.tap.session import Taps, taps

__all__ = [
    "GradientReport",
    "LayerRow",
    "NotSeen",
    "Octave",
    "ParameterRow",
    "Passage",
    "Row",
    "Statistics",
    "Tap",
    "Taps",
    "gradient_report",
    "tap",
    "taps",
]
