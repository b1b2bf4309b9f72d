"""zennit 1.0.0: rules of attribution change gradients, and this is the anchor of them."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("zennit.core", "zennit").Identity
    yield case(function, torch.randn(3, 4), torch.randn(2))
