"""A training loop whose process is ended from outside, as the kernel does when memory runs out."""
import os
import signal

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(3):
    model.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
os.kill(os.getpid(), signal.SIGKILL)
