"""pytorch-revgrad 0.2.0: the gradient reversal layer."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("pytorch_revgrad.functional", "pytorch-revgrad").RevGrad
    yield case(
        function,
        torch.randn(4, 5, requires_grad=True),
        torch.tensor(0.7),
        truth="surrogate",
        why="the reversed gradient is what the layer is for; the forward is the identity",
    )
