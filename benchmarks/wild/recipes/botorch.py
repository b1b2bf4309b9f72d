"""botorch 0.18.1."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load("botorch.utils.rounding", "botorch")
    yield case(module.RoundSTE, torch.randn(3, 4) * 2, truth="surrogate", why="straight through")
    yield case(module.OneHotArgmaxSTE, torch.randn(3, 4), truth="surrogate", why="straight through")
