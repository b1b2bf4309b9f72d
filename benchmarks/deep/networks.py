"""The four networks of `does_memory_stay_flat_with_depth.py`, each differentiated in three ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gradwright as gw

METHODS = ("unrolled", "checkpoint", "ours")


@dataclass(frozen=True)
class Subject:
    """``way(method)()`` gives the loss; ``learnt`` are the tensors whose gradients are asked for."""

    learnt: list[Tensor]
    ways: dict[str, Callable[[], Tensor]]


def by_segments(layers: Sequence[Callable[..., Any]], *state: Tensor) -> Any:
    """√depth segments, each under one checkpoint."""
    size = max(1, round(math.sqrt(len(layers))))

    def segment(start: int) -> Callable[..., Any]:
        def run(*state: Tensor) -> Any:
            for layer in layers[start : start + size]:
                state = layer(*state)
            return state

        return run

    for start in range(0, len(layers), size):
        state = checkpoint(segment(start), *state, use_reentrant=False)
    return state


def in_a_row(layers: Sequence[Callable[..., Any]], *state: Tensor) -> Any:
    for layer in layers:
        state = layer(*state)
    return state


def reversible_network(depth: int, dtype: torch.dtype = torch.float32) -> tuple[gw.ReversibleSequence, Tensor]:
    """The network and its two halves."""

    def small() -> nn.Module:
        return nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))

    network = gw.ReversibleSequence(gw.ReversibleBlock(small(), small()) for _ in range(depth))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3 / math.sqrt(depth))  # so that a deep network is as tame as a shallow one
    return network.to(dtype), torch.randn(2, 2048, 32).to(dtype)


def reversible_blocks(depth: int) -> Subject:
    return ways_through(*reversible_network(depth))


def ways_through(network: gw.ReversibleSequence, x: Tensor) -> Subject:
    def of(block: Any) -> Callable[..., Any]:
        def plain(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
            y1 = x1 + block.f(x2)
            return y1, x2 + block.g(y1)

        return plain

    layers = [of(block) for block in network.blocks]

    def loss(run: Callable[..., Any]) -> Tensor:
        y1, y2 = run(x[0], x[1])
        return (y1 * y2).mean()

    return Subject(list(network.parameters()), {
        "unrolled": lambda: loss(lambda *x: in_a_row(layers, *x)),
        "checkpoint": lambda: loss(lambda *x: by_segments(layers, *x)),
        "ours": lambda: loss(network),
    })  # fmt: skip


def equilibrium(depth: int) -> Subject:
    weight = nn.init.orthogonal_(torch.empty(64, 64)).mul_(1e-6 ** (1 / depth)).requires_grad_()
    x = torch.randn(1024, 64)

    def f(z: Tensor, weight: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(z @ weight + x)

    layers = [lambda z, w: (f(z, w, x), w)] * depth
    zero = torch.zeros_like(x)
    return Subject([weight], {
        "unrolled": lambda: in_a_row(layers, zero, weight)[0].square().mean(),
        "checkpoint": lambda: by_segments(layers, zero, weight)[0].square().mean(),
        "ours": lambda: gw.fixed_point(f, zero, weight, x, max_steps=depth + 10).square().mean(),
    })  # fmt: skip


def laplacian(u: Tensor) -> Tensor:
    return u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u


def heat(depth: int) -> Subject:
    start = torch.randn(256, 256)
    conductivity = torch.full((256, 256), 0.2).requires_grad_()

    def step(u: Tensor, k: Tensor) -> Tensor:
        return u + k * laplacian(u)

    layers = [lambda u, k: (step(u, k), k)] * depth
    return Subject([conductivity], {
        "unrolled": lambda: in_a_row(layers, start, conductivity)[0].square().sum(),
        "checkpoint": lambda: by_segments(layers, start, conductivity)[0].square().sum(),
        "ours": lambda: gw.integrate(step, start, conductivity, steps=depth).square().sum(),
    })  # fmt: skip


def wave(depth: int) -> Subject:
    start = torch.randn(256, 256)
    speed = torch.full((256, 256), 0.2).requires_grad_()

    def step(state: tuple[Tensor, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
        u, v = state
        v = v + c * laplacian(u)
        return u + v, v

    def back(state: tuple[Tensor, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
        u, v = state
        u = u - v
        return u, v - c * laplacian(u)

    layers = [lambda u, v, c: (*step((u, v), c), c)] * depth
    rest = torch.zeros_like(start)

    def ours() -> Tensor:
        return gw.integrate(step, (start, rest), speed, steps=depth, inverse=back)[0].square().mean()

    return Subject([speed], {
        "unrolled": lambda: in_a_row(layers, start, rest, speed)[0].square().mean(),
        "checkpoint": lambda: by_segments(layers, start, rest, speed)[0].square().mean(),
        "ours": ours,
    })  # fmt: skip


SUBJECTS: dict[str, Callable[[int], Subject]] = {
    "reversible blocks": reversible_blocks,
    "fixed point": equilibrium,
    "simulation": heat,
    "simulation with its inverse": wave,
}


def gradients(subject: Subject, method: str) -> list[Tensor]:
    for tensor in subject.learnt:
        tensor.grad = None
    subject.ways[method]().backward()
    return [tensor.grad for tensor in subject.learnt if tensor.grad is not None]
