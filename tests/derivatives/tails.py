"""The tails of networks that batch Jacobians are judged on: layers, custom Functions, and ways for samples to meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from tests.derivatives.functions import Cube, Normalised, NumpySine
from torch import Tensor, nn

B, D, K = 5, 3, 2


@dataclass(frozen=True)
class Tail:
    """``net``: from z [B, D] to y [B, K].  ``coupled``: samples meet.  ``twice``: it has second derivatives."""

    net: Callable[[Tensor], Tensor]
    parameters: tuple[Tensor, ...] = field(default=())
    coupled: bool = False
    twice: bool = True


def _tail(module: nn.Module, **facts: bool) -> Tail:
    module = module.double()
    return Tail(module, tuple(module.parameters()), **facts)


class Applied(nn.Module):
    """A linear layer, an operation, a linear layer."""

    def __init__(self, operation: Callable[[Tensor], Tensor], inner: int = 4, made: int = 4) -> None:
        super().__init__()
        self.before, self.operation, self.after = nn.Linear(D, inner), operation, nn.Linear(made, K)

    def forward(self, z: Tensor) -> Tensor:
        return torch.as_tensor(self.after(self.operation(self.before(z))))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.cell, self.after = kind(1, 3, batch_first=True), nn.Linear(3, K)

    def forward(self, z: Tensor) -> Tensor:
        return torch.as_tensor(self.after(self.cell(z.unsqueeze(2))[0][:, -1]))


class Attention(nn.Module):
    def __init__(self, along_batch: bool) -> None:
        super().__init__()
        self.along_batch = along_batch
        self.before, self.after = nn.Linear(1, 4), nn.Linear(4, K)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=not along_batch)

    def forward(self, z: Tensor) -> Tensor:
        tokens = self.before(z.unsqueeze(2))
        return torch.as_tensor(self.after(self.attention(tokens, tokens, tokens, need_weights=True)[0].mean(1)))


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(3 * (D - 1), K))

    def forward(self, z: Tensor) -> Tensor:
        return torch.as_tensor(self.net(z.unsqueeze(1)))


def _in_place_buffer(x: Tensor) -> Tensor:
    buffer = torch.zeros(x.shape[0], 4, dtype=x.dtype)
    for column in range(4):
        buffer[:, column] = x[:, column].tanh() * (1 + column)
    return buffer


def _branch(x: Tensor) -> Tensor:
    return x.tanh() if x.sum().item() > 0 else x.sigmoid() * x


def _minibatch_std(x: Tensor) -> Tensor:
    return torch.cat([x, x.std(0).mean().expand(x.shape[0], 1)], 1)


def _batch_attention(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.T, -1) @ x


def build(name: str) -> Tail:
    """A tail, its parameters drawn from a seed."""
    torch.default_generator.manual_seed(len(name))  # torch.manual_seed formats the stack for each kind of device
    return _BUILDERS[name]()


_BUILDERS: dict[str, Callable[[], Tail]] = {
    "mlp": lambda: _tail(Applied(torch.tanh)),
    "relu": lambda: _tail(Applied(torch.relu)),
    "batch_norm_train": lambda: _tail(Applied(nn.BatchNorm1d(4).double()), coupled=True),
    "batch_norm_eval": lambda: _tail(Applied(nn.BatchNorm1d(4).double()).eval()),
    "layer_norm": lambda: _tail(Applied(nn.Sequential(nn.LayerNorm(4), nn.Tanh()))),
    "group_norm": lambda: _tail(Applied(nn.Sequential(nn.GroupNorm(2, 4), nn.Tanh()))),
    "dropout": lambda: _tail(Applied(nn.Sequential(nn.Dropout(0.5), nn.Tanh()))),
    "custom_function": lambda: _tail(Applied(Cube.apply)),
    "custom_function_numpy": lambda: _tail(Applied(NumpySine.apply), twice=False),
    "normalising_backward": lambda: _tail(Applied(Normalised.apply), coupled=True),
    "lstm": lambda: _tail(Recurrent(nn.LSTM)),
    "gru": lambda: _tail(Recurrent(nn.GRU)),
    "in_place_buffer": lambda: _tail(Applied(_in_place_buffer)),
    "data_dependent_branch": lambda: _tail(Applied(_branch)),
    "batch_attention": lambda: _tail(Applied(_batch_attention), coupled=True),
    "minibatch_std": lambda: _tail(Applied(_minibatch_std, made=5), coupled=True),
    "convolution": lambda: _tail(Convolution()),
    "multihead_attention": lambda: _tail(Attention(along_batch=False)),
    "attention_over_the_batch": lambda: _tail(Attention(along_batch=True), coupled=True),
}

NAMES = tuple(_BUILDERS)


def latent() -> Tensor:
    """z, a hidden layer: not a leaf."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(B, D, generator=generator, dtype=torch.float64).requires_grad_() * 1.0
