"""Write a gradient (``custom_gradient``, or have it derived), say what it is, tailor how it flows, see what flows."""

from gradwright.functions.custom_gradient import CustomGradient, custom_gradient, residuals
from gradwright.functions.derive import derive
from gradwright.functions.flow import *  # noqa: F403  its __all__ is the list
from gradwright.functions.flow import __all__ as _flow
from gradwright.functions.surrogate import surrogate, surrogate_reason
from gradwright.functions.tap import Tap, gradient_report, tap, taps

__all__ = [
    "CustomGradient",
    "Tap",
    "custom_gradient",
    "derive",
    "gradient_report",
    "residuals",
    "surrogate",
    "surrogate_reason",
    "tap",
    "taps",
    *_flow,
]
