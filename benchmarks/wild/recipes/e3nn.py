"""e3nn 0.6.0."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("e3nn.math._soft_unit_step", "e3nn")._SoftUnitStep
    yield case(function, torch.randn(4, 5))
