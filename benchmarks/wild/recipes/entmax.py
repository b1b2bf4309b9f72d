"""entmax 1.3: sparse softmaxes, some of them by bisection. tests/real/notes.md tells more."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    activations = load("entmax.activations", "entmax", bare=False)
    roots = load("entmax.root_finding", "entmax", bare=False)
    losses = load("entmax.losses", "entmax", bare=False)
    scores, labels = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    yield case(activations.SparsemaxFunction, scores, -1, None)
    yield case(activations.SparsemaxFunction, torch.randn(2, 4, 3), 1, None, name="SparsemaxFunction, dim 1 of 3")
    yield case(activations.Entmax15Function, scores, -1, None)
    yield case(
        roots.EntmaxBisectFunction, scores, torch.tensor(1.3), GW203="(4, 1) for a scalar alpha: the engine sums it"
    )
    yield case(
        roots.EntmaxBisectFunction,
        scores,
        torch.tensor([[1.3], [1.5], [1.7], [2.0]]),
        name="EntmaxBisectFunction, alpha per row",
    )
    yield case(roots.SparsemaxBisectFunction, scores, -1)
    yield case(roots.NormmaxBisectFunction, scores, 2.0)
    yield case(roots.BudgetBisectFunction, scores, 2.0)
    yield case(
        roots.BudgetBisectFunction,
        0.1 * torch.randn(4, 1, 5),
        2.0,
        name="BudgetBisectFunction, an axis of size 1",
        truth="wrong",
        why="squeezes an axis that sum has removed: (4, 1) / (4,) is (4, 4), and the engine sums it: 4 times too large",
        GW203="the same fault: the cotangent returned is (4, 4, 5)",
    )
    yield case(losses.SparsemaxLossFunction, torch.randn(4, 5), labels, None)
    yield case(losses.SparsemaxBisectLossFunction, torch.randn(4, 5), labels, 50)
    yield case(losses.Entmax15LossFunction, torch.randn(4, 5), labels, None)
    yield case(losses.EntmaxBisectLossFunction, torch.randn(4, 5), labels, 1.3, 50)
    yield case(losses.NormmaxBisectLossFunction, torch.randn(4, 5), labels, 2.0, 50)
