"""memcnn 1.5.2: invertible blocks."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    additive = load("memcnn.models.additive", "memcnn", bare=False)
    affine = load("memcnn.models.affine", "memcnn", bare=False)

    class Two(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.scale, self.shift = (torch.nn.Linear(width, width).double() for _ in range(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.sigmoid(self.scale(x)) + 0.5, self.shift(x)

    turned = "the gradients of y2 and y1 are concatenated in that order: the halves of the gradient are exchanged"
    lost = "the gradient of x2 through y2 = x2 * s + t lacks the factor s (in the inverse: 1 / s)"
    faults = {
        "AdditiveBlockInverseFunction": turned,
        "AffineBlockInverseFunction": turned,
        "AffineBlockFunction2": lost,
        "AffineBlockInverseFunction2": lost,
    }
    f, g = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()).double() for _ in range(2))
    x = torch.randn(3, 4, dtype=torch.float64)
    weights = [*f.parameters(), *g.parameters()]
    for name in (
        "AdditiveBlockFunction",
        "AdditiveBlockInverseFunction",
        "AdditiveBlockFunction2",
        "AdditiveBlockInverseFunction2",
    ):
        truth, why = ("wrong", faults[name]) if name in faults else ("right", "")
        yield case(
            lambda x, name=name: getattr(additive, name).apply(x, f, g, *weights), x, name=name, truth=truth, why=why
        )
    f, g = Two(2), Two(2)
    both = [*f.parameters(), *g.parameters()]
    for name in (
        "AffineBlockFunction",
        "AffineBlockInverseFunction",
        "AffineBlockFunction2",
        "AffineBlockInverseFunction2",
    ):
        truth, why = ("wrong", faults[name]) if name in faults else ("right", "")
        yield case(lambda x, name=name: getattr(affine, name).apply(x, f, g, *both), x, name=name, truth=truth, why=why)
