"""The fixed point of a layer, and its gradient without the way that led there (a deep equilibrium model)."""

from gradwright.functions.flow.fixed_point.equilibrium import FixedPointReport, NotConverged, NotConvergedWarning
from gradwright.functions.flow.fixed_point.fixed_point import FixedPoint, fixed_point
from gradwright.functions.flow.fixed_point.solvers import Solved

__all__ = ["FixedPoint", "FixedPointReport", "NotConverged", "NotConvergedWarning", "Solved", "fixed_point"]
