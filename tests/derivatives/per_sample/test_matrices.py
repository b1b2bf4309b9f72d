"""Weights that enter by a product of matrices: against a loop, first and second order."""

from typing import Any

import pytest
import torch
from tests.derivatives.per_sample.judge import Case, drawn, ids, judge, of_module, per_sample_loss, weight
from torch import Tensor, nn


class SequenceFirst(nn.Module):
    """Two linear layers on [S, B, E]: the batch lies inside of a merged axis."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 6, bias=bias), nn.Linear(6, 2, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.transpose(0, 1)).tanh()
        return self.second(hidden).transpose(0, 1)


class Flattened(nn.Module):
    """[B, S, E] flattened by hand to [B * S, E], or [S * B, E]."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first, self.layer, self.last = batch_first, nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if not self.batch_first:
            x = x.transpose(0, 1)
        y = self.last(self.layer(x.reshape(-1, 5)).tanh()).view(*x.shape[:2], 3)
        return y if self.batch_first else y.transpose(0, 1)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6, bias=False), nn.GELU(), nn.Linear(6, 3))


MODULES = [
    of_module("MLP", mlp, 4, 5),
    of_module("MLP on a sequence", mlp, 4, 3, 5),
    of_module("MLP on a grid", mlp, 4, 2, 3, 5),
    of_module("sequence first", lambda: SequenceFirst(True), 4, 3, 5),
    of_module("sequence first, no bias", lambda: SequenceFirst(False), 4, 3, 5),
    of_module("flattened, batch outside", lambda: Flattened(True), 4, 3, 5),
    of_module("flattened, batch inside", lambda: Flattened(False), 4, 3, 5),
    of_module("transformer layer", lambda: Attention(8), 4, 3, 8),
    of_module("LSTM cell", lambda: Recurrent(nn.LSTMCell(5, 4)), 4, 3, 5),
    of_module("GRU cell", lambda: Recurrent(nn.GRUCell(5, 4)), 4, 3, 5),
]


class Attention(nn.Module):
    """Pre-norm attention of two heads written out, and a feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mixed = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.wide, self.narrow = nn.Linear(width, width), nn.Linear(width, 12), nn.Linear(12, width)

    def forward(self, x: Tensor) -> Tensor:
        count, steps, width = x.shape
        mixed = self.mixed(self.norm(x)).view(count, steps, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        query, key, value = mixed[0], mixed[1], mixed[2]
        scores = torch.softmax(query @ key.transpose(-2, -1) / 2, -1)
        x = x + self.out((scores @ value).transpose(1, 2).reshape(count, steps, width))
        return x + self.narrow(torch.relu(self.wide(x)))


class Recurrent(nn.Module):
    """The same weights at every step of time: their contributions add up."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state[0] if isinstance(state, tuple) else state


def product(name, build):  # type: ignore[no-untyped-def]
    """A case of one expression: ``build(x [4, 5], xs [4, 3, 5], generator)`` to y and its parameters."""

    def make(generator):  # type: ignore[no-untyped-def]
        y, params = build(drawn(generator, 4, 5), drawn(generator, 4, 3, 5), generator)
        return y if y.ndim == 1 else per_sample_loss(y), params

    return Case(name, make)


def on_the_left(x, xs, g):  # type: ignore[no-untyped-def]
    w = weight(g, 3, 5)
    return (w @ x.T).tanh().sum(0), [w]


def left_and_bias_column(x, xs, g):  # type: ignore[no-untyped-def]
    w, b = weight(g, 3, 5), weight(g, 3, 1)
    return torch.addmm(b, w, x.T, beta=0.5, alpha=1.5).tanh().sum(0), [w, b]


def scaled(x, xs, g):  # type: ignore[no-untyped-def]
    w, b = weight(g, 5, 3), weight(g, 3)
    return torch.addmm(b, x, w, beta=0.3, alpha=0.7).tanh(), [w, b]


def vector(x, xs, g):  # type: ignore[no-untyped-def]
    v = weight(g, 5)
    return (x @ v).tanh(), [v]


def vector_on_a_sequence(x, xs, g):  # type: ignore[no-untyped-def]
    v = weight(g, 5)
    return (xs @ v).tanh(), [v]


def added_vector(x, xs, g):  # type: ignore[no-untyped-def]
    v, b = weight(g, 5), weight(g, 1)
    return torch.addmv(b, x, v, beta=0.5, alpha=2.0).tanh(), [v, b]


def heads(x, xs, g):  # type: ignore[no-untyped-def]
    w = weight(g, 2, 5, 3)
    return torch.einsum("bi,hio->bho", x, w).tanh(), [w]


def heads_of_a_sequence(x, xs, g):  # type: ignore[no-untyped-def]
    w = weight(g, 2, 5, 3)
    return torch.einsum("bsi,hio->bhso", xs, w).tanh(), [w]


def expanded(x, xs, g):  # type: ignore[no-untyped-def]
    w, b = weight(g, 5, 3), weight(g, 3)
    return torch.baddbmm(b, xs, w.expand(4, 5, 3), beta=0.5, alpha=1.5).tanh(), [w, b]


def batched_on_the_left(x, xs, g):  # type: ignore[no-untyped-def]
    w = weight(g, 3, 5)
    return (w @ xs.transpose(1, 2)).tanh(), [w]


def shared_keys(x, xs, g):  # type: ignore[no-untyped-def]
    keys = weight(g, 2, 6, 5)
    return torch.bmm(keys, torch.stack([x, x.sin()]).transpose(1, 2)).tanh().permute(2, 0, 1), [keys]


EXPRESSIONS = [
    on_the_left, left_and_bias_column, scaled, vector, vector_on_a_sequence, added_vector, heads, heads_of_a_sequence,
    expanded, batched_on_the_left, shared_keys,
]  # fmt: skip


@pytest.mark.parametrize("case", ids(MODULES))
def test_weights_of_a_module_are_those_of_a_loop(case: Case) -> None:
    judge(case)


@pytest.mark.parametrize("build", EXPRESSIONS)
def test_weights_of_a_product_are_those_of_a_loop(build) -> None:  # type: ignore[no-untyped-def]
    judge(product(build.__name__, build))
