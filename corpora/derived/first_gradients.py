"""What a first gradient of one's own is often written for: a power, scores, layers, a penalty, a loss of two parts."""

import torch
from torch import Tensor

from corpora.derived.forward import Forward, fixed, real, rows, square


def cube(t: Tensor) -> Tensor:
    return t**3


def cube_by_products(t: Tensor) -> Tensor:
    return t * t * t


def cube_by_loop(t: Tensor) -> Tensor:
    """Row by row, as far as a loop over a shape goes."""
    return torch.stack([row**3 for row in t])


def scores_by_einsum(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("qd,kd->qk", q, k)


def cubed_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return cube(torch.addmm(bias, x, weight.mT))


def encode_and_decode(x: Tensor, encoder: Tensor, decoder: Tensor) -> Tensor:
    return x @ encoder @ decoder


def jacobian_norm_penalty(jacobian: Tensor) -> Tensor:
    """Of each sample's K x D derivatives the norm, and how far it is from 1, summed over the batch."""
    norms = jacobian.square().sum(dim=(1, 2)).sqrt()
    return (norms - 1).abs().sum()


def huber_of_two_parts(prediction: Tensor, target: Tensor) -> Tensor:
    limit = 1.0
    gap = (prediction - target).abs()
    inside = gap <= limit
    outer = (limit * gap - limit**2 / 2) * (1 - inside.to(gap.dtype))
    return (outer + inside * gap.square() / 2).mean()


FORWARDS = (
    Forward(cube, lambda n: (real(*square(n)),)),
    Forward(cube_by_products, lambda n: (real(*square(n)),)),
    Forward(cube_by_loop, lambda n: (real(6, n // 6),)),
    Forward(scores_by_einsum, lambda n: (real(*rows(n)), real(64, rows(n)[1]))),
    Forward(cubed_linear, lambda n: (real(*rows(n)), real(32, rows(n)[1]), real(32))),
    Forward(encode_and_decode, lambda n: (real(n // 3, 3), real(3, 2), real(2, 3))),
    Forward(jacobian_norm_penalty, lambda n: (real(n // 6, 3, 2),)),
    Forward(huber_of_two_parts, lambda n: (real(n), fixed(n))),
)
