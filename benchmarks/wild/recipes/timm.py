"""timm 1.0.31: activations that save memory by recomputing."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load("timm.layers.activations_me", "timm")
    x = torch.randn(5, 4) * 3
    for name in ("SwishAutoFn", "MishAutoFn", "HardSigmoidAutoFn", "HardSwishAutoFn", "HardMishAutoFn"):
        yield case(getattr(module, name), x)
