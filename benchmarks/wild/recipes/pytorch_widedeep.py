"""pytorch-widedeep 1.7.0: a copy of pytorch-tabnet, with its faults."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load(
        "pytorch_widedeep.models.tabular.tabnet.sparsemax", "pytorch-widedeep", absent=("pytorch_widedeep.wdtypes",)
    )
    changed = "input -= max_val changes the caller's tensor, and no mark_dirty"
    yield case(module.SparsemaxFunction, torch.randn(4, 5), -1, GW202=changed)
    yield case(
        module.SparsemaxFunction,
        torch.randn(4, 1, 5),
        -1,
        name="SparsemaxFunction, an axis of size 1",
        truth="wrong",
        why="supp_size.squeeze() removes that axis too, as in pytorch-tabnet",
        GW202=changed,
        GW203="the same fault: the cotangent returned is (4, 4, 5)",
    )
    yield case(module.Entmax15Function, torch.randn(4, 5), -1)
