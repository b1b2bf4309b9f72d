"""Networks, and their Hessians by nested loops: one backward through a backward for every sample, output and entry."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.derivatives.functions import Cubed
from torch import Tensor, nn


def one_hot_hessian(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    """d2y[b] / dz[b] dz[b], [B, *K, D, D], where y [B, *K] and z [B, *D]."""
    count, width = z.shape[0], z[0].numel()
    blocks = []
    for b in range(count):
        for value in y[b].reshape(-1):
            (gradient,) = torch.autograd.grad(value, z, create_graph=True, allow_unused=True)
            rows = [torch.zeros(width, dtype=z.dtype)] * width
            if gradient is not None and gradient.requires_grad:
                entries = gradient[b].reshape(-1)
                made = [
                    torch.autograd.grad(entry, z, retain_graph=True, create_graph=create_graph, allow_unused=True)[0]
                    for entry in entries
                ]
                rows = [torch.zeros(width, dtype=z.dtype) if row is None else row[b].reshape(-1) for row in made]
            blocks.append(torch.stack(rows))
    return torch.stack(blocks).reshape(*y.shape, width, width)


def one_hot_laplacian(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    return one_hot_hessian(y, z, create_graph).diagonal(dim1=-2, dim2=-1).sum(-1)


class WrittenOut(nn.Module):
    """A layer norm in small steps, with the parameters of ``layer``: torch's own has a wrong third derivative."""

    def __init__(self, layer: nn.LayerNorm) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        spread = x.var(-1, correction=0, keepdim=True) + self.layer.eps
        return (x - x.mean(-1, keepdim=True)) * spread.rsqrt() * self.layer.weight + self.layer.bias


class Attention(nn.Module):
    """Self-attention over three tokens of two numbers, batch first, by the kernel that can be differentiated twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(2, 1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, 3, 2)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return self.inner(tokens, tokens, tokens, need_weights=False)[0].flatten(1)


#: From the width of the input, 6, to that of the output, 2.
NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
    "softplus": lambda: nn.Sequential(nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 2), nn.Sigmoid()),
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 3, 2), nn.SiLU(), nn.Flatten(), nn.Linear(6, 2)
    ),
    "attention": lambda: nn.Sequential(Attention(), nn.Tanh(), nn.Linear(6, 2)),
    "own function": lambda: nn.Sequential(nn.Linear(6, 4), Cubed(), nn.Linear(4, 2)),
    "relu": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)),
}


def made(name: str, count: int = 3) -> tuple[nn.Module, Tensor]:
    """The network of that name in float64, and a point inside a graph [count, 6] to put through it."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(sum(map(ord, name)))  # torch.manual_seed formats the stack for each device
        net = NETS[name]().double()
        x = torch.randn(count, 6, dtype=torch.float64, requires_grad=True)
    return net, x * 1.5


def same_gradients(one: Tensor, other: Tensor, net: nn.Module) -> None:
    """A loss on ``one`` and on ``other`` has the same gradient in every parameter."""
    pair = [
        torch.autograd.grad(
            value.square().sum(), list(net.parameters()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for value in (one, other)
    ]
    for ours, theirs in zip(*pair, strict=True):
        torch.testing.assert_close(ours, theirs)
