"""geomloss 0.3.1."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("geomloss._legacy.kernel_samples", "geomloss", absent=("pykeops",)).DoubleGrad
    yield case(
        function,
        torch.randn(4, 5),
        truth="surrogate",
        why="doubles the gradient on purpose: the loss is symmetric, and only one half of it is differentiated",
    )
