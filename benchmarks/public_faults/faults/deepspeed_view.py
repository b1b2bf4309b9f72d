"""deepspeed 0.3.13: the linear layer of ZeRO stage 3 in a batch of sequences."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    linear = load("deepspeed.runtime.zero.linear").LinearFunctionForZeroStage3
    return linear, (torch.randn(2, 3, 4), torch.randn(5, 4))


FAULT = Fault(
    before="deepspeed==0.3.13",
    after="deepspeed==0.3.14",
    function="LinearFunctionForZeroStage3 (its layout)",
    what="grad_output.view(-1, n): a cotangent that isn't contiguous, such as that of a transpose, dies",
    source="the two versions' runtime/zero/linear.py",
    code="GW209",
    cause="layout",
    call=call,
)
