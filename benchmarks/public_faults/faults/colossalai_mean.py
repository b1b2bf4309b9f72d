"""colossalai 0.3.4: the distributed cross entropy, on one machine."""

from typing import Any

import torch
import torch.distributed as dist

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    function = load("colossalai.shardformer.layer.loss").DistCrossEntropy
    return function, (torch.randn(3, 2, 5), torch.tensor([[0, 4], [2, 1], [3, 3]]), -100, None)


FAULT = Fault(
    before="colossalai==0.3.4",
    after="colossalai==0.3.5",
    function="DistCrossEntropy",
    what="three gradients for four inputs: every backward dies; and once it doesn't, those of the sum, not of the mean",
    source="the two versions' shardformer/layer/loss.py",
    code="GW201",
    cause="number of gradients",
    call=call,
)
