"""kornia 0.9.0. tests/real/notes.md tells more."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    focal = load("kornia.losses.focal", "kornia", absent=("kornia.core", "kornia.constants"))
    target = torch.randint(3, (2, 1, 4, 4))
    yield case(focal._TargetLogSoftmax, torch.randn(2, 3, 4, 4), target, None)
    yield case(
        focal._TargetLogSoftmax,
        torch.randn(2, 3, 4, 4),
        target,
        torch.rand(2, 1, 4, 4) > 0.3,
        name="_TargetLogSoftmax, some not valid",
    )
