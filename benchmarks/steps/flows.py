"""Continuous normalizing flows: dz/dt = f(z, t), d log p / dt = -tr df/dz, by four steps of Runge-Kutta.

``usual``: a loop over the dimensions with autograd.grad, as torchdiffeq's example has it (``trace_df_dz``) and FFJORD
(``divergence_bf``); or Hutchinson's estimate with one direction for the whole solve, as FFJORD has it
(``divergence_approx``, Grathwohl et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor, nn

from gradwright.derivatives.divergences import divergence
from steps.task import Task

#: From dz/dt and z to the trace, [B].
Trace: TypeAlias = Callable[[Tensor, Tensor], Tensor]

STEPS, LENGTH, SEED = 4, 1.0, 5


class HyperNetwork(nn.Module):
    """The field of torchdiffeq's example: weights made from the time, 64 hidden units of one layer."""

    def __init__(self, size: int = 2, hidden: int = 32, width: int = 64) -> None:
        super().__init__()
        self.size, self.width, self.block = size, width, size * width
        self.make = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 3 * self.block + width),
        )  # fmt: skip

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        made = self.make(t.reshape(1, 1)).reshape(-1)
        w = made[: self.block].reshape(self.width, self.size, 1)
        u = made[self.block : 2 * self.block].reshape(self.width, 1, self.size)
        u = u * made[2 * self.block : 3 * self.block].reshape(self.width, 1, self.size).sigmoid()
        b = made[3 * self.block :].reshape(self.width, 1, 1)
        inner = torch.tanh(torch.matmul(z.unsqueeze(0).repeat(self.width, 1, 1), w) + b)
        return torch.matmul(inner, u).mean(0)


class ConcatSquash(nn.Module):
    """FFJORD's layer: (W z + c) sigmoid(gate(t)) + bias(t)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer, self.gate = nn.Linear(inputs, outputs), nn.Linear(1, outputs)
        self.bias = nn.Linear(1, outputs, bias=False)

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        t = t.reshape(1, 1)
        return self.layer(z) * torch.sigmoid(self.gate(t)) + self.bias(t)


class Field(nn.Module):
    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        widths = (size, hidden, hidden, size)
        self.layers = nn.ModuleList(ConcatSquash(*pair) for pair in pairwise(widths))

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            z = nn.functional.softplus(layer(t, z))
        out: Tensor = self.layers[-1](t, z)
        return out


def usual(dz: Tensor, z: Tensor) -> Tensor:
    total = torch.zeros(len(z), device=z.device)
    for i in range(z.shape[1]):
        total = total + torch.autograd.grad(dz[:, i].sum(), z, create_graph=True)[0][:, i]
    return total


def ours(dz: Tensor, z: Tensor) -> Tensor:
    return divergence(dz, wrt=z, create_graph=True)


def hutchinson(like: Tensor) -> Trace:
    generator = torch.Generator(like.device).manual_seed(SEED)
    signs = (2 * torch.randint(0, 2, like.shape, generator=generator, device=like.device) - 1).to(like)

    def trace(dz: Tensor, z: Tensor) -> Tensor:
        return (torch.autograd.grad(dz, z, signs, create_graph=True)[0] * signs).sum(1)

    return trace


def our_hutchinson(dz: Tensor, z: Tensor) -> Tensor:
    generator = torch.Generator(z.device).manual_seed(SEED)  # the same signs at every call
    return divergence(dz, wrt=z, estimator="hutchinson", generator=generator, create_graph=True)


def loss(field: nn.Module, data: Tensor, trace: Trace) -> Tensor:
    """Minus the log likelihood of ``data``: z goes back from t = 1 to 0, where it is normal."""
    step = -LENGTH / STEPS

    def slope(t: float, z: Tensor) -> tuple[Tensor, Tensor]:
        if not z.requires_grad:
            z = z.requires_grad_()
        dz = field(torch.tensor(t, device=z.device), z)
        return dz, -trace(dz, z)

    z, change = data.clone(), torch.zeros(len(data), device=data.device)
    for number in range(STEPS):
        t = LENGTH + number * step
        k1, c1 = slope(t, z)
        k2, c2 = slope(t + step / 2, z + step / 2 * k1)
        k3, c3 = slope(t + step / 2, z + step / 2 * k2)
        k4, c4 = slope(t + step, z + step * k3)
        z = z + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        change = change + step / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
    normal = -z.square().sum(1) / 2 - z.shape[1] / 2 * math.log(2 * math.pi)
    return -(normal - change).mean()


def task(name: str, field: nn.Module, size: int, samples: int, device: torch.device, estimated: bool = False) -> Task:
    torch.manual_seed(1)
    data = torch.randn(samples, size, device=device)
    traces = (hutchinson(data), our_hutchinson) if estimated else (usual, ours)
    ways = {
        "usual": lambda model: loss(model, data, traces[0]),
        "ours": lambda model: loss(model, data, traces[1]),
    }
    return Task(f"{name}, D={size}, B={samples}", field.to(device), ways, ("ours",))


def example_of_torchdiffeq(device: torch.device) -> Task:
    torch.manual_seed(0)
    return task("CNF of torchdiffeq's example, exact trace", HyperNetwork(), 2, 512, device)


def ffjord(size: int, hidden: int, samples: int, device: torch.device, estimated: bool) -> Task:
    torch.manual_seed(0)
    kind = "Hutchinson's trace" if estimated else "exact trace"
    return task(f"FFJORD, {kind}", Field(size, hidden), size, samples, device, estimated)
