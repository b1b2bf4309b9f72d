"""sparsemax 0.1.9."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("sparsemax.sparsemax", "sparsemax").SparsemaxFunction
    yield case(function, torch.randn(4, 5), -1)
    yield case(function, torch.randn(2, 3, 4), 1, name="SparsemaxFunction, dim 1 of 3")
