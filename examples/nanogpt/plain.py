"""The loop in plain torch: what `train.py` is compared with, step for step.

python examples/nanogpt/plain.py --steps 200
torchrun --nproc-per-node 2 examples/nanogpt/plain.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
import torch.distributed as dist
from command import arguments, parsed, started
from model import GPT
from settings import Settings
from text import Batch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class PlainLoop:
    """``step(micro_batches)``: one update; the loss before it, over all micro-batches and ranks."""

    def __init__(self, model: GPT, settings: Settings) -> None:
        self.settings = settings
        self.gpt = model
        self.model = DistributedDataParallel(model) if dist.is_initialized() else model
        self.optimizer = settings.optimizer(model)
        self.schedule = settings.schedule(self.optimizer)

    def step(self, micro_batches: Sequence[Batch]) -> Tensor:
        total = torch.zeros(())
        for number, (tokens, following) in enumerate(micro_batches, 1):
            is_last = number == len(micro_batches)
            quiet = not is_last and isinstance(self.model, DistributedDataParallel)
            with self.model.no_sync() if quiet else contextlib.nullcontext():
                logits = self.model(tokens)
                loss = F.cross_entropy(logits.flatten(0, 1), following.flatten()) / len(micro_batches)
                loss.backward()
            total = total + loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_norm)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        if dist.is_initialized():
            dist.all_reduce(total)
            total /= dist.get_world_size()
        return total


def main() -> None:
    asked = parsed(arguments(__doc__))
    with started(asked) as run:
        loop = PlainLoop(GPT(run.size), run.settings)
        batches = iter(run.batches)
        for update in range(1, run.settings.steps + 1):
            loss = loop.step([next(batches) for _ in range(run.settings.accumulation_steps)])
            run.report(update, loss, loop.gpt)
        run.close(loop.gpt)


if __name__ == "__main__":
    main()
