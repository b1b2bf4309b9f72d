"""gpytorch 1.2.1: left (K inverse) right with a left tensor."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    gpytorch = load("gpytorch", bare=False)
    kernel = torch.eye(4, dtype=torch.float64) * 2 + 0.3

    def inverse_product(right: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
        return gpytorch.lazy.NonLazyTensor(kernel.to(right.dtype)).inv_matmul(right, left)

    return inverse_product, (torch.randn(4, 2), torch.randn(3, 4))


FAULT = Fault(
    before="gpytorch==1.2.1",
    after="gpytorch==1.3.0",
    function="InvMatmul",
    what="needs_input_grad[2] and [3] are exchanged: the left tensor alone gets no gradient",
    source="https://github.com/cornellius-gp/gpytorch/pull/1322",
    code="GW210",
    cause="needs_input_grad",
    call=call,
)
