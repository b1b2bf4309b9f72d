"""Training on several processes: a copy of the model on each, and the gradient of all their micro-batches together.

`python examples/accumulation/parallel.py` starts two processes; so does `torchrun --nproc-per-node 2 ...`. The ranks
hold different numbers of tokens: a mean per rank, averaged over the ranks, is the gradient of no batch at all. The
ranks agree on the number of tokens before the first backward, and DDP shares gradients in the last micro-batch only.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a process group: its functions keep the one there is, and its threads
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import gradwright as gw

IGNORED, WORDS, STEPS, RANKS = -100, 20, 4, 2


def batches_of(rank: int) -> list[tuple[Tensor, Tensor]]:
    """The second rank's sentences are shorter."""
    generator = torch.Generator().manual_seed(rank)
    batches = []
    for _ in range(STEPS):
        tokens = torch.randint(WORDS, (4, 12), generator=generator)
        lengths = torch.randint(1, 13 if rank == 0 else 5, (4, 1), generator=generator)
        batches.append((tokens, ((tokens + 1) % WORDS).masked_fill(torch.arange(12) >= lengths, IGNORED)))
    return batches


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(WORDS, 16), nn.Linear(16, WORDS))


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor], reduction: str) -> Tensor:
    return F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1], ignore_index=IGNORED, reduction=reduction)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def of_the_large_batch() -> Tensor:
    model, batches = new_model(), [batch for rank in range(RANKS) for batch in batches_of(rank)]
    total = sum(int((labels != IGNORED).sum()) for _, labels in batches)
    (sum(loss_of(model, batch, "sum") for batch in batches) / total).backward()
    return gradient(model)


def of_a_mean_per_rank(rank: int) -> Tensor:
    model = DistributedDataParallel(new_model())
    for batch in batches_of(rank):
        (loss_of(model, batch, "mean") / STEPS).backward()
    return gradient(model)


def accumulated(rank: int) -> Tensor:
    model = DistributedDataParallel(new_model())
    acc = gw.training.GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        accumulation_steps=STEPS,
        count=lambda batch: (batch[1] != IGNORED).sum(),
    )
    for window in acc.windows(batches_of(rank)):
        for batch in window:
            acc.backward(loss_of(model, batch, "sum"), reduction="sum")
        acc.step()
    return gradient(model)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    exact = of_the_large_batch()
    for name, found in (("a mean per rank", of_a_mean_per_rank(rank)), ("GradientAccumulator", accumulated(rank))):
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
