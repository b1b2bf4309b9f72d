"""torch-geometric 2.8.1."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load("torch_geometric.utils.cross_entropy", "torch-geometric", bare=False)
    edges = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 0, 4, 3]])
    logits = torch.randn(4, 5, requires_grad=True)
    yield case(module.SparseCrossEntropy, logits, edges, None, name="SparseCrossEntropy, no weight")
    yield case(module.SparseCrossEntropy, logits, edges, torch.tensor([1.0, 0.5, 2.0, -1.5, 1.0]))
