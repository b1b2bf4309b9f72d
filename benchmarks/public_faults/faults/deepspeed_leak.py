"""deepspeed 0.9.1: the linear layer of ZeRO stage 3 keeps tensors in a module's dictionary."""

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
    return linear, (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5))


FAULT = Fault(
    before="deepspeed==0.9.1",
    after="deepspeed==0.9.2",
    function="LinearFunctionForZeroStage3 (its tensor_map)",
    what="weight and bias are kept in tensor_map[id(weight)] for ever: every new weight leaves one behind",
    source="the two versions' runtime/zero/linear.py",
    code="GW213",
    cause="leak",
    call=call,
)
