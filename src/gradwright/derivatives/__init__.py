"""Derivatives of a whole batch, of any node of a graph, with no loop."""

from gradwright.derivatives.captured import Captured, capture
from gradwright.derivatives.jacobian import batch_jacobian

__all__ = ["Captured", "batch_jacobian", "capture"]
