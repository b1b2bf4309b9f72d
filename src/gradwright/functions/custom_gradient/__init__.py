"""Write a gradient: two plain functions; the backward's signature says what is saved."""

from gradwright.functions.custom_gradient.custom_gradient import CustomGradient, custom_gradient
from gradwright.functions.custom_gradient.residuals import Residuals, residuals

__all__ = ["CustomGradient", "Residuals", "custom_gradient", "residuals"]
