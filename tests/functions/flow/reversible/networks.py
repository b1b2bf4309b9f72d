"""Reversible networks, and plain autograd of them written out: what their tests share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gradwright.functions.flow.reversible import ReversibleBlock, ReversibleSequence

WIDTH = 4


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, WIDTH), *more)


class Pair(nn.Module):
    """(s, t) for the affine law, s bounded as in RealNVP."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        s, t = self.both(x).chunk(2, dim=-1)
        return s.tanh(), t


def network(make: Callable[[], nn.Module] = mlp, depth: int = 3, **options: Any) -> ReversibleSequence:
    return ReversibleSequence([ReversibleBlock(make(), make(), **options) for _ in range(depth)]).double()


def halves(rows: int = 5, *, grad: bool = True) -> list[Tensor]:
    return [torch.randn(rows, WIDTH, dtype=torch.float64, requires_grad=grad) for _ in range(2)]


def unrolled(blocks: ReversibleSequence, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """RevNet, eq. 6, and RealNVP, eq. 4 and 5, as they are printed: the oracle."""
    for each in blocks.blocks:
        for number, net in enumerate((each.f, each.g)):
            if net is None:
                continue
            x, made = (x1, net(x2)) if number == 0 else (x2, net(x1))
            y = x * made[0].exp() + made[1] if isinstance(made, tuple) else x + made
            x1, x2 = (y, x2) if number == 0 else (x1, y)
    return x1, x2


def loss(y1: Tensor, y2: Tensor) -> Tensor:
    return (y1.sin() * y2).sum() + (y2**2).sum()


def gradients(run: Callable[..., Any], module: nn.Module, inputs: list[Tensor], seed: int = 3) -> list[Tensor | None]:
    """Of the inputs and of all parameters, by ``backward``."""
    module.zero_grad()
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    torch.manual_seed(seed)
    loss(*run(*fresh)).backward()
    return [None if x.grad is None else x.grad.clone() for x in (*fresh, *module.parameters())]


def assert_same(found: list[Tensor | None], expected: list[Tensor | None], tolerance: float = 1e-11) -> None:
    assert [one is None for one in found] == [two is None for two in expected]
    for one, two in zip(found, expected, strict=True):
        if one is not None:
            torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)


def assert_like_autograd(module: ReversibleSequence, inputs: list[Tensor] | None = None) -> None:
    inputs = halves() if inputs is None else inputs
    twin = copy.deepcopy(module)
    found = gradients(module, module, inputs)
    assert_same(found, gradients(lambda *x: unrolled(twin, *x), twin, inputs))
    for (name, one), two in zip(module.named_buffers(), twin.buffers(), strict=True):
        assert torch.equal(one, two), name


class Counting(nn.Module):
    """Gives something else in every call."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Whole(nn.Module):
    """A reversible network inside f."""

    def __init__(self, inner: ReversibleSequence) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return sum(self.inner(x, x.sin()))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Drifting(nn.Module):
    """Its output hangs on a buffer, which every call exchanges for another one."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("level", torch.ones(1, 1))

    def forward(self, x: Tensor) -> Tensor:
        self.level = self.level * 0.9 + 0.01 * x.detach().abs().mean()
        return self.line(x).tanh() * self.level


def sharing(part: nn.Module) -> ReversibleSequence:
    return network(lambda: mlp(part))


def frozen(module: ReversibleSequence) -> ReversibleSequence:
    for later in module.blocks[1:]:
        later.f.requires_grad_(False)
    return module


NETWORKS: dict[str, Callable[[], ReversibleSequence]] = {
    "additive": network,
    "affine": lambda: network(Pair, coupling="affine"),
    "deep": lambda: network(depth=40),
    "one half only": lambda: ReversibleSequence([ReversibleBlock(mlp()), ReversibleBlock(mlp())]).double(),
    "no parameters": lambda: network(nn.Tanh),
    "the identity": lambda: network(nn.Identity),
    "a term that broadcasts": lambda: network(lambda: nn.Sequential(nn.Linear(WIDTH, 1))),
    "nested": lambda: network(lambda: Whole(network(depth=2)), depth=2),
    "lstm": lambda: network(Recurrent, depth=2),
    "dropout": lambda: network(lambda: mlp(nn.Dropout(0.4))),
    "batch norm": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH))),
    "batch norm and dropout": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))),
    "spectral norm": lambda: network(lambda: parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))),
    "buffers that are exchanged": lambda: network(Drifting),
    "one batch norm everywhere": lambda: sharing(nn.BatchNorm1d(WIDTH)),
    "one block used three times": lambda: ReversibleSequence([ReversibleBlock(mlp(), mlp())] * 3).double(),
    "f is g": lambda: ReversibleSequence([ReversibleBlock(shared := mlp(), shared)] * 2).double(),
    "frozen": lambda: frozen(network()),
    "evaluated": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))).eval(),
}
