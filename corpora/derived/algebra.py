"""Linear algebra, layers and gates."""

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, fixed, real, rows, sequences, square


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x @ weight.T + bias


def linear_of_library(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.tanh(F.linear(x, weight, bias))


def bilinear(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("bi,oij,bj->bo", x, weight, y)


def low_rank(x: Tensor, weight: Tensor, down: Tensor, up: Tensor, scale: float = 2.0) -> Tensor:
    """A frozen weight with a low-rank update."""
    return x @ weight.T + scale * (x @ down) @ up


def two_layers(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = torch.relu(x @ w1 + b1)
    return hidden @ w2 + b2


def quadratic_form(x: Tensor, a: Tensor) -> Tensor:
    return (x @ a * x).sum(-1)


def polynomial(x: Tensor, coefficients: Tensor) -> Tensor:
    result = torch.zeros_like(x)
    for c in coefficients:
        result = result * x + c
    return result


def gram_penalty(weight: Tensor) -> Tensor:
    """Orthogonal regularisation."""
    gram = weight.T @ weight
    return ((gram - torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)) ** 2).sum()


def solve_regression(x: Tensor, y: Tensor, log_ridge: Tensor) -> Tensor:
    a = x.T @ x + log_ridge.exp() * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(a, x.T @ y)


def glu(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return a * torch.sigmoid(b)


def swiglu(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return F.silu(x @ w) * (x @ v)


def geglu(x: Tensor) -> Tensor:
    a, gate = x.chunk(2, -1)
    return a * F.gelu(gate)


def squeeze_and_excite(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    pooled = x.mean(1)
    gate = torch.sigmoid(torch.relu(pooled @ w1) @ w2)
    return x * gate.unsqueeze(1)


def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor) -> Tensor:
    x_r, x_z, x_n = (x @ w_x).chunk(3, -1)
    h_r, h_z, h_n = (h @ w_h).chunk(3, -1)
    reset = torch.sigmoid(x_r + h_r)
    update = torch.sigmoid(x_z + h_z)
    new = torch.tanh(x_n + reset * h_n)
    return (1 - update) * new + update * h


def lstm_cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def mixture_of_experts(x: Tensor, gate: Tensor, experts: Tensor) -> Tensor:
    weights = torch.softmax(x @ gate, dim=-1)
    outputs = torch.einsum("bi,eio->beo", x, experts)
    return (weights.unsqueeze(-1) * outputs).sum(1)


def residual_block(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return x + scale * torch.tanh(x @ w)


FORWARDS = (
    Forward(linear, lambda n: (real(*rows(n)), real(32, rows(n)[1]), real(32))),
    Forward(linear_of_library, lambda n: (real(*rows(n)), real(32, rows(n)[1]), real(32))),
    Forward(bilinear, lambda n: (real(*rows(n)), real(4, rows(n)[1], 6), real(rows(n)[0], 6))),
    Forward(low_rank, lambda n: (real(*rows(n)), fixed(32, rows(n)[1]), real(rows(n)[1], 4), real(4, 32))),
    Forward(two_layers, lambda n: (real(*rows(n)), real(rows(n)[1], 32), real(32), real(32, 16), real(16))),
    Forward(quadratic_form, lambda n: (real(*rows(n)), real(rows(n)[1], rows(n)[1]))),
    Forward(polynomial, lambda n: (real(n), real(4))),
    Forward(gram_penalty, lambda n: (real(*square(n)),)),
    Forward(solve_regression, lambda n: (real(n // 8 + 8, 8), real(n // 8 + 8, 2), real(1))),
    Forward(glu, lambda n: (real(*rows(n)),)),
    Forward(swiglu, lambda n: (real(*rows(n)), real(rows(n)[1], 32), real(rows(n)[1], 32))),
    Forward(geglu, lambda n: (real(*rows(n)),)),
    Forward(squeeze_and_excite, lambda n: (real(*sequences(n)), real(sequences(n)[2], 4), real(4, sequences(n)[2]))),
    Forward(gru_cell, lambda n: (real(*rows(n)), real(rows(n)[0], 16), real(rows(n)[1], 48), real(16, 48))),
    Forward(lstm_cell, lambda n: (real(rows(n)[0], 64), real(rows(n)[0], 16))),
    Forward(mixture_of_experts, lambda n: (real(*rows(n)), real(rows(n)[1], 3), real(3, rows(n)[1], 16))),
    Forward(residual_block, lambda n: (real(*rows(n)), real(rows(n)[1], rows(n)[1]), real(1))),
)
