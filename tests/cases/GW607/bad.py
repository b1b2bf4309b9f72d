"""Gradient accumulation under DistributedDataParallel, with the backward alone in no_sync."""
import contextlib
import tempfile

import torch
import torch.distributed as dist

torch.manual_seed(0)
folder = tempfile.TemporaryDirectory()
dist.init_process_group("gloo", init_method=f"file://{folder.name}/store", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(64, 6), torch.randn(64, 1)
for epoch in range(3):
    for number, (rows, wanted) in enumerate(zip(x.split(8), y.split(8))):
        last = (number + 1) % 4 == 0
        loss = torch.nn.functional.mse_loss(model(rows), wanted)
        with contextlib.nullcontext() if last else model.no_sync():
            (loss / 4).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
dist.destroy_process_group()
print(f"loss {loss.item():.4f}")
