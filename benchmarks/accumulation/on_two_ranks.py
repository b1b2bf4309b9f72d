"""One window on each of two ranks: its gradient's error, and what goes over the wire. Run by torchrun; prints JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from accumulation import by_hand, by_package
from accumulation.task import Job, MicroBatches, OwnMean, Tokens, full_gradient

WAYS: dict[str, Callable[[Job], None]] = {
    "by hand, whole count": by_hand.whole_batch_count,
    "by hand, whole count, without no_sync": partial(by_hand.whole_batch_count, synchronised="every"),
    "by hand, mean / steps": by_hand.per_step_division,
    "GradientAccumulator": by_hand.gradwright,
    'GradientAccumulator, sync="every"': partial(by_hand.gradwright, sync="every"),
    "GradientAccumulator, accumulate_dtype=float64": partial(by_hand.gradwright, accumulate_dtype=torch.float64),
    "Accelerate": partial(by_package.accelerate, ours=False),
    "Accelerate, AccelerateAccumulator": partial(by_package.accelerate, ours=True),
    "Lightning": partial(by_package.lightning, ours=False),
    "Lightning, LightningAccumulator": partial(by_package.lightning, ours=True),
    "Trainer": partial(by_package.trainer, ours=False),
    "Trainer, a model with its own mean": partial(by_package.trainer, ours=False),
    "Trainer, a model with its own mean, ExactTrainer": partial(by_package.trainer, ours=True),
}
_MESSAGES = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "gather")


class Wire:
    """Bytes that this rank hands over: DDP's buckets, by a hook of each; tensors handed to torch.distributed."""

    def __init__(self) -> None:
        self.gradients = self.messages = self.other_bytes = 0
        for name in _MESSAGES:
            setattr(dist, name, self._counted(getattr(dist, name)))
        made = DistributedDataParallel.__init__
        wire = self

        def init(ddp: Any, *arguments: Any, **options: Any) -> None:
            made(ddp, *arguments, **options)
            ddp.register_comm_hook(None, wire._bucket)

        DistributedDataParallel.__init__ = init  # type: ignore[method-assign,assignment]

    def _counted(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def sending(*arguments: Any, **options: Any) -> Any:
            tensors = [one for one in (*arguments, *options.values()) if isinstance(one, torch.Tensor)]
            self.messages += 1
            self.other_bytes += min((one.nbytes for one in tensors), default=0)
            return send(*arguments, **options)

        return sending

    def _bucket(self, _, bucket):  # DDP takes no annotation that is a text
        self.gradients += bucket.buffer().nbytes
        self.messages += 1
        summed = dist.distributed_c10d.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        assert summed is not None
        return summed.get_future().then(lambda future: future.value()[0])

    def clear(self) -> None:
        self.gradients = self.messages = self.other_bytes = 0


def rows(width: int, steps: int) -> dict[str, dict[str, Any]]:
    rank, world = dist.get_rank(), dist.get_world_size()
    data = MicroBatches(steps * world)
    wire = Wire()
    found = {}
    for name, way in WAYS.items():
        model: nn.Module = (OwnMean if "own mean" in name else Tokens)(width, torch.float64)
        expected = full_gradient(model, data.batches)
        job = Job(model, data, steps, rank, world)
        job.optimizer.keeps = True
        begin = job.begin

        def cleared(begin: Callable[[], None] = begin) -> None:
            wire.clear()
            begin()

        job.begin = cleared  # type: ignore[method-assign]
        way(job)
        seen = job.optimizer.seen
        assert seen is not None
        found[name] = {
            "error_float64": f"{float((seen - expected).norm() / expected.norm()):.1e}",
            "gradient_KiB": round(wire.gradients / 1024),
            "other_bytes": wire.other_bytes,
            "messages": wire.messages,
        }
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = rows(*map(int, sys.argv[1:]))
    if dist.get_rank() == 0:
        print("\n" + json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
