"""DistributedDataParallel on gloo, one process: accumulation under no_sync, the forward inside it as well."""

import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 24)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(24, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def run(rank, world_size, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    torch.manual_seed(34)
    model = ToyModel()
    ddp_model = DDP(model)
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    inputs, weight = torch.randn(256, 10), torch.randn(10, 5)
    targets = torch.tanh(inputs @ weight)
    accumulate = 2

    for epoch in range(8):
        optimizer.zero_grad()
        for i, rows in enumerate(torch.randperm(256).split(32)):
            last = (i + 1) % accumulate == 0
            with contextlib.nullcontext() if last else ddp_model.no_sync():
                outputs = ddp_model(inputs[rows])
                loss = loss_fn(outputs, targets[rows]) / accumulate
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
        print(f"rank {rank}, epoch {epoch}: loss {loss.item() * accumulate:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(0, 1, os.path.join(folder, "store"))
