"""hyptorch 1.3.1: the Riemannian gradient of the ball."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("hyptorch.tensor.autograd", "hyptorch").RiemannianGradient
    yield case(
        function,
        (0.2 * torch.randn(4, 5)).requires_grad_(),
        torch.tensor(1.0),
        truth="surrogate",
        why="the identity forward, the metric's inverse in the backward: the Riemannian gradient is meant",
    )
