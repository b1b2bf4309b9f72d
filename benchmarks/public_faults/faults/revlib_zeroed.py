"""revlib 1.3.1: a reversible network."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    revlib = load("revlib", bare=False)
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()).double() for _ in range(4)]
    network = revlib.ReversibleSequential(*layers, split_dim=1)
    return (lambda x: network(x)), (torch.randn(3, 4, dtype=torch.float64),)


FAULT = Fault(
    before="revlib==1.3.1",
    after="revlib==1.3.2",
    function="_ReversibleHalfResidualSwapFn",
    what="`if dy0 is not None: dy0 = zeros_like(dy0)`: every cotangent that exists is replaced by zeros",
    source="the two versions' core.py",
    code="GW101",
    cause="dropped term",
    call=call,
)
