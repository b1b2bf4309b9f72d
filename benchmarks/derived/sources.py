"""The functions of the texts that Gradwright was asked to answer (/work/shared/sources)."""

import torch
from torch import Tensor

from derived.forward import Forward, fixed, real, rows, square


def my_square(x: Tensor) -> Tensor:
    return x * x


def square_by_power(x: Tensor) -> Tensor:
    return x**2


def square_by_loop(x: Tensor) -> Tensor:
    """Row by row, as far as a loop over a shape goes."""
    return torch.stack([row * row for row in x])


def product_by_einsum(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("ij,jk->ik", x, y)


def squared_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return my_square(x @ weight.T + bias)


def two_linear_layers(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    z = x @ first.t()
    return z @ second.t()


def gradient_norm_penalty(gradient: Tensor) -> Tensor:
    """|sqrt(l1^2 + l2^2) - 1|, summed over the batch."""
    l1, l2 = gradient[:, 0], gradient[:, 1]
    return torch.abs(torch.sqrt(l1**2 + l2**2) - 1).sum()


def learners_huber(prediction: Tensor, target: Tensor) -> Tensor:
    d = 1.0
    error = torch.abs(target - prediction)
    flag1 = error <= d
    flag2 = 1 - flag1.to(error.dtype)
    l2_loss = 0.5 * error**2 * flag1
    l1_loss = d * (error - 0.5 * d) * flag2
    return (l2_loss + l1_loss).mean()


FORWARDS = (
    Forward(my_square, lambda n: (real(*square(n)),)),
    Forward(square_by_power, lambda n: (real(*square(n)),)),
    Forward(square_by_loop, lambda n: (real(6, n // 6),)),
    Forward(product_by_einsum, lambda n: (real(*rows(n)), real(rows(n)[1], 64))),
    Forward(squared_linear, lambda n: (real(*rows(n)), real(32, rows(n)[1]), real(32))),
    Forward(two_linear_layers, lambda n: (real(n // 2, 2), real(1, 2), real(2, 1))),
    Forward(gradient_norm_penalty, lambda n: (real(n // 2, 2),)),
    Forward(learners_huber, lambda n: (real(n), fixed(n))),
)
