"""pytorch-tabnet 4.1.0: a copy of an early entmax."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load("pytorch_tabnet.sparsemax", "pytorch-tabnet")
    changed = "input -= max_val changes the caller's tensor, and no mark_dirty; sparsemax(x) leaves x shifted"
    yield case(module.SparsemaxFunction, torch.randn(4, 5), -1, GW202=changed)
    yield case(
        module.SparsemaxFunction,
        torch.randn(4, 1, 5),
        -1,
        name="SparsemaxFunction, an axis of size 1",
        truth="wrong",
        why="supp_size.squeeze() removes that axis too: (4, 1) / (4,) is (4, 4); fixed in entmax 1.1",
        GW202=changed,
        GW203="the same fault: the cotangent returned is (4, 4, 5)",
    )
    yield case(module.Entmax15Function, torch.randn(4, 5), -1)
    yield case(module.Entmoid15, torch.randn(4, 5))
