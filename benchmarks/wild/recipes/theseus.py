"""theseus-ai 0.2.3: sparse products."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    load("scipy", "scipy", bare=False)
    module = load("theseus.utils.sparse_matrix_utils", "theseus-ai", absent=("theseus.constants",))
    pointer, columns = torch.tensor([0, 2, 3, 5]), torch.tensor([0, 2, 1, 0, 3])
    value = torch.randn(2, 5, dtype=torch.float64)
    yield case(module._SparseMvPAutograd, 4, pointer, columns, value, torch.randn(2, 4, dtype=torch.float64))
    yield case(module._SparseMtvPAutograd, 4, pointer, columns, value, torch.randn(2, 3, dtype=torch.float64))
