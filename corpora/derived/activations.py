"""Activations, written out by hand."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, fixed, real, rows


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def swish_with_slope(x: Tensor, beta: Tensor) -> Tensor:
    return x * torch.sigmoid(beta * x)


def swish_by_exp(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def mish(x: Tensor) -> Tensor:
    return x * torch.tanh(F.softplus(x))


def gelu_exact(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x: Tensor) -> Tensor:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def softplus_by_hand(x: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(-x.abs())) + x.clamp(min=0)


def softplus_naive(x: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(x))


def hard_swish(x: Tensor) -> Tensor:
    return x * torch.clamp(x + 3, 0, 6) / 6


def hard_sigmoid(x: Tensor) -> Tensor:
    return F.relu6(x + 3) / 6


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    return x + torch.sin(alpha * x) ** 2 / alpha


def squared_relu(x: Tensor) -> Tensor:
    return torch.relu(x) ** 2


def leaky_relu_by_where(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.01 * x)


def prelu_by_hand(x: Tensor, slope: Tensor) -> Tensor:
    return torch.relu(x) - slope * torch.relu(-x)


def elu_by_hand(x: Tensor, alpha: float = 1.3) -> Tensor:
    return torch.where(x > 0, x, alpha * torch.expm1(x))


def softsign(x: Tensor) -> Tensor:
    return x / (1 + x.abs())


def bent_identity(x: Tensor) -> Tensor:
    return (torch.sqrt(x * x + 1) - 1) / 2 + x


def symlog(x: Tensor) -> Tensor:
    return torch.sign(x) * torch.log1p(torch.abs(x))


def scaled_tanh(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return scale * torch.tanh(x) + shift


def gaussian_bump(x: Tensor, centre: Tensor, width: Tensor) -> Tensor:
    return torch.exp(-((x - centre) ** 2) / (2 * width**2))


def soft_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    return torch.sign(x) * torch.relu(x.abs() - threshold)


def smooth_step(x: Tensor) -> Tensor:
    t = x.clamp(0.0, 1.0)
    return t * t * (3 - 2 * t)


def _positive(*shape: int) -> Tensor:
    return (0.5 + fixed(*shape).abs()).requires_grad_()


_ONE = (swish, swish_by_exp, mish, gelu_exact, gelu_tanh, quick_gelu, softplus_by_hand, softplus_naive, hard_swish,
        hard_sigmoid, squared_relu, leaky_relu_by_where, elu_by_hand, softsign, bent_identity, symlog, soft_shrink,
        smooth_step)  # fmt: skip

FORWARDS = (
    *(Forward(function, lambda n: (real(n),)) for function in _ONE),
    Forward(swish_with_slope, lambda n: (real(*rows(n)), real(rows(n)[1]))),
    Forward(snake, lambda n: (real(*rows(n)), _positive(rows(n)[1]))),
    Forward(prelu_by_hand, lambda n: (real(*rows(n)), real(rows(n)[1]))),
    Forward(scaled_tanh, lambda n: (real(*rows(n)), real(rows(n)[1]), real(rows(n)[1]))),
    Forward(gaussian_bump, lambda n: (real(*rows(n)), real(rows(n)[1]), _positive(rows(n)[1]))),
)
