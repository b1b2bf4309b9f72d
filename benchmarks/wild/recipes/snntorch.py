"""snntorch 1.0.0: spikes with surrogate gradients."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    surrogate = load("snntorch.surrogate", "snntorch")
    loss = load("snntorch.functional.loss", "snntorch", absent=("snntorch.spikegen",))
    quant = load("snntorch.functional.quant", "snntorch")
    x, meant = torch.randn(4, 5), "a step with the slope of a smooth function"
    yield case(surrogate.StraightThroughEstimator, x, truth="surrogate", why=meant)
    yield case(
        surrogate.Triangular,
        x,
        1.0,
        truth="surrogate",
        why=meant + " (its docstring promises a triangle; it is ±threshold)",
    )
    yield case(surrogate.FastSigmoid, x, 25.0, truth="surrogate", why=meant)
    yield case(surrogate.ATan, x, 2.0, truth="surrogate", why=meant)
    yield case(surrogate.Heaviside, x, truth="surrogate", why=meant)
    overflow = "exp(-slope * x) overflows: inf / inf from x < -3.6 on in float32, x < -0.45 in float16"
    yield case(surrogate.Sigmoid, x, 25.0, truth="surrogate", why=meant, GW103=overflow, GW104=overflow)
    yield case(surrogate.SpikeRateEscape, x, 1.0, 25.0, truth="surrogate", why=meant)
    yield case(
        surrogate.StochasticSpikeOperator,
        x,
        0.0,
        0.2,
        truth="surrogate",
        why=meant,
        GW107="torch.rand_like in the backward: another gradient every time, as its docstring says",
    )
    yield case(
        surrogate.LeakySpikeOperator,
        x,
        0.1,
        truth="wrong",
        why="one gradient for two inputs: every backward dies (expected 2, got 1)",
        GW201="the same fault",
    )
    yield case(surrogate.SparseFastSigmoid, x, 25.0, 0.0, truth="surrogate", why=meant)
    yield case(surrogate.CustomSurrogate, x, lambda x, g, out: g * torch.sigmoid(x), truth="surrogate", why=meant)
    spikes = (torch.randn(5, 2, 3) > 0).float()
    yield case(loss.SpikeTime.FirstSpike, spikes, truth="surrogate", why="-1 at each neuron's first spike")
    yield case(
        loss.SpikeTime.Tolerance,
        torch.rand(2, 3) * 5,
        torch.tensor(2.0),
        1.0,
        truth="surrogate",
        why="straight through the tolerance",
    )
    yield case(
        quant.StateQuant,
        torch.randn(3, 4),
        torch.linspace(-2, 2, 9),
        truth="surrogate",
        why="straight through a quantiser",
    )
