"""Penalties on gradients and Jacobians, and what else batches of derivatives are used for, as torch-style functions.

All are differentiable, give one number per sample with ``reduction="none"``, and say so where samples meet.
"""

from gradwright.penalties.contractive import contractive_penalty
from gradwright.penalties.input_gradient import input_gradient_penalty
from gradwright.penalties.jacobian import jacobian_penalty
from gradwright.penalties.pde import partials
from gradwright.penalties.score_matching import score_matching
from gradwright.penalties.unit_norm import unit_norm_penalty
from gradwright.penalties.wgan_gp import gradient_penalty
from gradwright.penalties.zero_centred import r1_penalty, r2_penalty

__all__ = [
    "contractive_penalty",
    "gradient_penalty",
    "input_gradient_penalty",
    "jacobian_penalty",
    "partials",
    "r1_penalty",
    "r2_penalty",
    "score_matching",
    "unit_norm_penalty",
]
