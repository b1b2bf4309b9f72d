"""neuromancer 1.5.6."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    linear = load("neuromancer.slim.linear", "neuromancer")
    yield case(
        linear.IdentityGradReLU, torch.randn(3, 4), truth="surrogate", why="straight through a ReLU, as its name says"
    )
