"""deepspeed 0.17.3: the linear layer of ZeRO stage 3 with a frozen weight."""

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
    before="deepspeed==0.17.3",
    after="deepspeed==0.17.4",
    function="LinearFunctionForZeroStage3 (a frozen weight)",
    what="`dim` is set only where the weight wants a gradient: with the weight frozen the bias' gradient dies",
    source="https://github.com/deepspeedai/DeepSpeed/issues/7435 and /pull/7449",
    code="GW210",
    cause="needs_input_grad",
    call=call,
)
