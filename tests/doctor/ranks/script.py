"""What the ranks of the tests run: one file, and a word that says what becomes of it."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

# What ends too soon after a backward, torch waits for for ever: the end of a DDP model joins gloo's thread with the GIL
# in hand, and that thread, which still holds the last work, wants the GIL to let go of it.
HELD: list[nn.Module] = []


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return x * g


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Model(nn.Module):
    def __init__(self, square):
        super().__init__()
        self.layer, self.square = nn.Linear(4, 4), square

    def forward(self, x):
        return self.square.apply(self.layer(x))


def main(way, steps):
    rank = int(os.environ["RANK"])
    torch.manual_seed(rank)
    wrong = way == "both wrong" or (way == "one wrong" and rank == 1)
    model: nn.Module = Model(Halved if wrong else Square)
    if way != "alone":
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
        HELD.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    steps = steps // 2 if way in ("uneven", "alone") and rank == 1 else steps
    for step in range(steps):
        if rank == 1 and step == 3:
            if way == "dies":
                raise ValueError("no such word")
            if way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if way == "exits":
                os._exit(7)
        if way == "hangs" and rank == 1 and step == 2:  # DDP's second forward waits for the other ranks as well
            time.sleep(1000)
        if way == "slow":
            time.sleep(0.05 * (1 + rank))
        optimizer.zero_grad()
        forward = model.module if way == "parted" else model
        forward(torch.randn(8, 4)).mean().backward()
        optimizer.step()
        if step == 2 and rank == 0:
            Path("stepped").touch()
    print(f"rank {rank} made {steps} steps", flush=True)
    if way != "alone":
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
