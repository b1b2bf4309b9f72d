"""torchattacks 3.5.1."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("robustbench.model_zoo.architectures.dm_wide_resnet", "torchattacks")._Swish
    yield case(function, torch.randn(3, 4))
