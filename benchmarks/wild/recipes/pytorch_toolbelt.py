"""pytorch-toolbelt 0.8.0: activations, and the normalisation of the bi-tempered loss."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    activations = load("pytorch_toolbelt.modules.activations", "pytorch-toolbelt")
    losses = load("pytorch_toolbelt.losses.bitempered_loss", "pytorch-toolbelt")
    yield case(activations.SwishFunction, torch.randn(4, 5))
    yield case(activations.MishFunction, torch.randn(4, 5))
    yield case(losses.ComputeNormalization, torch.randn(4, 5), 1.5, 60, name="ComputeNormalization, t 1.5")
    yield case(losses.ComputeNormalization, torch.randn(4, 5), 0.7, 60, name="ComputeNormalization, t 0.7")
