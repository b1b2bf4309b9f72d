"""diffsort 0.2.0."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    yield case(load("diffsort.functional", "diffsort").NormalCDF, torch.randn(4, 5), 0.7)
