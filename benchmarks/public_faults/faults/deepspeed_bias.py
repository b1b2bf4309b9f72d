"""deepspeed 0.10.3: the linear layer of ZeRO stage 3, its bias."""

from types import SimpleNamespace
from typing import Any

import torch
from wild.loading import stand_in

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    plain = SimpleNamespace(custom_fwd=lambda function: function, custom_bwd=lambda function: function)
    stand_in("deepspeed.runtime.utils", noop_decorator=lambda function: function)
    stand_in("deepspeed.accelerator", get_accelerator=lambda: SimpleNamespace(amp=lambda: plain))
    linear = load("deepspeed.runtime.zero.linear", absent=("deepspeed.comm",)).LinearFunctionForZeroStage3
    return linear, (torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5))


FAULT = Fault(
    before="deepspeed==0.10.3",
    after="deepspeed==0.11.1",
    function="LinearFunctionForZeroStage3 (its bias)",
    what="the bias' gradient is summed over the first axis alone: (3, 5) for (5,), summed in silence by torch",
    source="the two versions' runtime/zero/linear.py",
    code="GW203",
    cause="shape",
    call=call,
)
