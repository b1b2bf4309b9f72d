"""Normalisations by hand."""

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, images, real, rows


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    grouped = x.view(batch, 2, -1)
    mean = grouped.mean(dim=2, keepdim=True)
    variance = grouped.var(dim=2, keepdim=True, unbiased=False)
    normal = ((grouped - mean) / (variance + 1e-5).sqrt()).view(batch, channels, height, width)
    return normal * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


def instance_norm(x: Tensor) -> Tensor:
    mean = x.mean(dim=(2, 3), keepdim=True)
    std = x.std(dim=(2, 3), keepdim=True)
    return (x - mean) / (std + 1e-5)


def batch_statistics(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(0)
    variance = x.var(0, unbiased=False)
    return gamma * (x - mean) / torch.sqrt(variance + 1e-5) + beta, mean, variance


def l2_normalise(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def l2_normalise_safe(x: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-12)


def weight_standardisation(x: Tensor, weight: Tensor) -> Tensor:
    mean = weight.mean(dim=(1, 2, 3), keepdim=True)
    std = weight.std(dim=(1, 2, 3), keepdim=True) + 1e-5
    return F.conv2d(x, (weight - mean) / std, padding=1)


def weight_norm(x: Tensor, v: Tensor, g: Tensor) -> Tensor:
    weight = g.unsqueeze(1) * v / v.norm(dim=1, keepdim=True)
    return x @ weight.t()


def min_max(x: Tensor) -> Tensor:
    low = x.amin(dim=-1, keepdim=True)
    high = x.amax(dim=-1, keepdim=True)
    return (x - low) / (high - low + 1e-8)


def softmax_by_hand(x: Tensor) -> Tensor:
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def adaptive_instance_norm(x: Tensor, style: Tensor) -> Tensor:
    centred = (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5)
    return centred * style.std((2, 3), keepdim=True) + style.mean((2, 3), keepdim=True)


def film(x: Tensor, condition: Tensor, w_scale: Tensor, w_shift: Tensor) -> Tensor:
    scale = condition @ w_scale
    shift = condition @ w_shift
    return x * (1 + scale) + shift


FORWARDS = (
    Forward(layer_norm, lambda n: (real(*rows(n)), real(rows(n)[1]), real(rows(n)[1]))),
    Forward(rms_norm, lambda n: (real(*rows(n)), real(rows(n)[1]))),
    Forward(group_norm, lambda n: (real(*images(n)), real(4), real(4))),
    Forward(instance_norm, lambda n: (real(*images(n)),)),
    Forward(batch_statistics, lambda n: (real(*rows(n)), real(rows(n)[1]), real(rows(n)[1]))),
    *(
        Forward(function, lambda n: (real(*rows(n)),))
        for function in (l2_normalise, l2_normalise_safe, min_max, softmax_by_hand)
    ),
    Forward(weight_standardisation, lambda n: (real(*images(n)), real(3, 4, 3, 3))),
    Forward(weight_norm, lambda n: (real(*rows(n)), real(16, rows(n)[1]), real(16))),
    Forward(adaptive_instance_norm, lambda n: (real(*images(n)), real(*images(n)))),
    Forward(film, lambda n: (real(*rows(n)), real(rows(n)[0], 4), real(4, rows(n)[1]), real(4, rows(n)[1]))),
)
