"""fairchem-core 2.24.0."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    module = load("fairchem.core.models.uma.common.rotation", "fairchem-core")
    yield case(module.Safeacos, torch.rand(3, 4) * 1.8 - 0.9)
    yield case(module.Safeatan2, torch.randn(3, 4), torch.randn(3, 4))
