"""Meta-learning on sine waves: an inner step with torch.func over a batch of tasks, an outer optimizer."""

import math

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(27)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
outer = torch.optim.Adam(net.parameters(), lr=3e-3)
INNER_LR, SHOTS = 0.05, 10


def sample_tasks(n):
    amplitude = 0.5 + 2.0 * torch.rand(n, 1, 1)
    phase = math.pi * torch.rand(n, 1, 1)
    x = 8 * torch.rand(n, 2 * SHOTS, 1) - 4
    y = amplitude * torch.sin(x + phase)
    return x[:, :SHOTS], y[:, :SHOTS], x[:, SHOTS:], y[:, SHOTS:]


def task_loss(params, x, y):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), y)


def loss_after_adaptation(params, support_x, support_y, query_x, query_y):
    gradients = grad(task_loss)(params, support_x, support_y)
    adapted = {name: p - INNER_LR * gradients[name] for name, p in params.items()}
    return task_loss(adapted, query_x, query_y)


for iteration in range(40):
    params = dict(net.named_parameters())
    losses = vmap(loss_after_adaptation, in_dims=(None, 0, 0, 0, 0))(params, *sample_tasks(8))
    meta_loss = losses.mean()
    outer.zero_grad()
    meta_loss.backward()
    outer.step()
    if iteration % 10 == 0:
        print(f"iteration {iteration}: meta loss {meta_loss.item():.4f}")
