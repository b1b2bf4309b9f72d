"""monai 1.6.1."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    swish = load("monai.networks.blocks.activation", "monai", absent=("monai.utils",))
    yield case(swish.SwishImplementation, torch.randn(3, 4))
