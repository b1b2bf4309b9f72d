"""A model that is split over two processes: `torch.distributed.pipelining` runs micro-batches through its stages.

`python examples/accumulation/pipeline.py` starts two processes; so does `torchrun --nproc-per-node 2 ...`. By itself
the schedule divides the gradients by its number of micro-batches: a mean of means. Here `loss_fn` sums up, the tokens
are counted where the targets are, on the last stage, and both stages divide by their number, once.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import gradwright as gw

IGNORED, WORDS, BATCHES, MICRO_BATCHES, RANKS = -100, 20, 3, 4, 2


def batches() -> list[tuple[Tensor, Tensor]]:
    """Sentences of different lengths."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(BATCHES):
        tokens = torch.randint(WORDS, (8, 12), generator=generator)
        lengths = torch.randint(1, 13, (8, 1), generator=generator).sort(0).values
        made.append((tokens, ((tokens + 1) % WORDS).masked_fill(torch.arange(12) >= lengths, IGNORED)))
    return made


def new_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(WORDS, 16), nn.Linear(16, WORDS))


def summed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="sum")


def mean(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED)


def of_the_large_batch(rank: int) -> Tensor:
    model, total = new_model(), sum(int((labels != IGNORED).sum()) for _, labels in batches())
    (sum(summed(model(tokens), labels) for tokens, labels in batches()) / total).backward()
    return model[rank].weight.grad


def stage_of(rank: int) -> PipelineStage:
    return PipelineStage(new_model()[rank], rank, RANKS, torch.device("cpu"))


def of_the_schedule_alone(rank: int) -> Tensor:
    stage = stage_of(rank)
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=mean)
    for tokens, labels in batches():
        schedule.step(*([tokens] if rank == 0 else []), target=labels if rank == 1 else None)
    return stage.submod.weight.grad / BATCHES


def accumulated(rank: int) -> Tensor:
    stage = stage_of(rank)
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=summed, scale_grads=False)
    acc = gw.training.PipelineAccumulator(
        schedule,
        stage,
        torch.optim.SGD(stage.submod.parameters(), lr=0.0),
        accumulation_steps=BATCHES,
        count=lambda batch: (batch[1] != IGNORED).sum(),
    )
    for window in acc.windows(batches()):  # the same on every stage
        for tokens, labels in window:
            acc.run(tokens, target=labels)
        acc.step()
    return stage.submod.weight.grad


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    exact = of_the_large_batch(rank)
    for name, found in (
        ("the schedule alone", of_the_schedule_alone(rank)),
        ("PipelineAccumulator", accumulated(rank)),
    ):
        if rank == 0:
            print(f"{name:20}  differs from the large batch by {(found - exact).norm() / exact.norm():.1e}")
    dist.barrier()  # nobody leaves while another still exchanges
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        sys.exit(subprocess.run([*torchrun, __file__], env=os.environ | {"OMP_NUM_THREADS": "1"}).returncode)
