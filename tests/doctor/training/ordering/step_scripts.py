"""The beginnings of the scripts that these tests watch: a model, an optimizer, data, and a loss of a part."""

HEAD = """
import contextlib
import warnings
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
torch.manual_seed(0)
def net(inputs=6, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 6), torch.randn(64, 1)
rows = list(zip(x.split(8), y.split(8)))
def loss_of(part=(x, y)):
    return F.mse_loss(model(part[0]), part[1])
"""

SCALED = HEAD + "scaler = torch.amp.GradScaler('cpu')\n"

TOKENS = (
    HEAD
    + """
words = net(4, 5)
optimizer = torch.optim.Adam(words.parameters())
def batch(kept):
    wanted = torch.randint(0, 5, (10,))
    wanted[kept:] = -100
    return torch.randn(10, 4), wanted
"""
)

DDP = (
    HEAD
    + """
import torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{__file__}.store", rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
)
