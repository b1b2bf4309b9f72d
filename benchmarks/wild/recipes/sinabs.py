"""sinabs 3.1.3: spikes with surrogate gradients."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    quantize = load("sinabs.activation.quantize", "sinabs")
    yield case(quantize.Quantize, torch.randn(3, 4) * 3, truth="surrogate", why="straight through")
    yield case(quantize.StochasticRounding, torch.rand(3, 4) * 3, truth="surrogate", why="straight through")
