"""auto-LiRPA 0.3: bounds through relaxations."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load(
        "auto_LiRPA.operators.clampmult", "auto-lirpa", absent=("auto_LiRPA.patches",)
    ).ClampedMultiplication
    shape = (3, 2, 4)
    yield case(
        function,
        torch.randn(shape),
        torch.rand(shape),
        torch.rand(shape),
        None,
        None,
        False,
        name="ClampedMultiplication, no bias",
    )
    yield case(function, *(torch.randn(shape) for _ in range(5)), False)
