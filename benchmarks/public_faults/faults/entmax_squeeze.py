"""entmax 1.0: sparsemax of scores with another axis of size 1."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    return load("entmax.activations", bare=False).SparsemaxFunction, (0.1 * torch.randn(4, 1, 5), -1)


FAULT = Fault(
    before="entmax==1.0",
    after="entmax==1.1",
    function="SparsemaxFunction",
    what="supp_size.squeeze() drops every axis of size 1, not just the projected one: (4, 1) / (4,) is (4, 4)",
    source="https://github.com/deep-spin/entmax/issues/13 and /pull/18; entmax#35 is the same in another Function",
    code="GW101",
    cause="constant factor",
    call=call,
)
