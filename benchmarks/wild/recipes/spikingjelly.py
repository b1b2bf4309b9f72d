"""spikingjelly 2.0.0: spikes with surrogate gradients."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    surrogate = load("spikingjelly.activation_based.surrogate", "spikingjelly")
    quantize = load("spikingjelly.activation_based.quantize", "spikingjelly")
    x, meant = torch.randn(4, 5), "a step with the slope of a smooth function"
    for name in (
        "piecewise_quadratic",
        "piecewise_exp",
        "sigmoid",
        "soft_sign",
        "super_spike",
        "atan",
        "nonzero_sign_log_abs",
        "erf",
        "q_pseudo_spike",
        "fake_numerical_gradient",
        "log_tailed_relu",
        "rect",
    ):
        yield case(getattr(surrogate, name), x, 2.0, truth="surrogate", why=meant)
    yield case(surrogate.piecewise_leaky_relu, x, 1.0, 0.01, truth="surrogate", why=meant)
    yield case(surrogate.squarewave_fourier_series, x, 2, 8.0, truth="surrogate", why=meant)
    yield case(surrogate.s2nn, x, 4.0, 1.0, truth="surrogate", why=meant)
    yield case(surrogate.leaky_k_relu, x, 0.0, 1.0, truth="surrogate", why=meant)
    yield case(surrogate.deterministic_pass, x, truth="surrogate", why=meant)
    yield case(surrogate.poisson_pass, torch.rand(4, 5), truth="surrogate", why=meant + "; the spike is drawn")
    for name in ("RoundATGF", "CeilATGF", "FloorATGF"):
        yield case(getattr(quantize, name), x * 2, truth="surrogate", why="straight through")
    yield case(quantize.ClampATGF, x, -0.5, 0.5)
    yield case(quantize.StepQuantizeATGF, x, 0.25, truth="surrogate", why="straight through")
    yield case(quantize.KBitQuantizeATGF, torch.rand(4, 5), 3, truth="surrogate", why="straight through")
