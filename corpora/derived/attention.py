"""Attention in several shapes."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, flags, real, sequences


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, dim=-1) @ v


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    length = q.shape[-2]
    ahead = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(ahead, float("-inf")).softmax(-1) @ v


def attention_with_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.shape[-1]) + bias
    return torch.einsum("bqk,bkd->bqd", F.softmax(scores, dim=-1), v)


def attention_with_padding(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~keep[:, None, :], -1e9)
    return scores.softmax(dim=-1) @ v


def multi_head_attention(x: Tensor, w_qkv: Tensor, w_out: Tensor) -> Tensor:
    heads = 2
    batch, length, width = x.shape
    q, k, v = (x @ w_qkv).chunk(3, dim=-1)
    q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2) for part in (q, k, v))
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(width // heads), dim=-1)
    out = (weights @ v).transpose(1, 2).reshape(batch, length, width)
    return out @ w_out


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    summary = k.transpose(-2, -1) @ v
    normaliser = q @ k.sum(dim=-2).unsqueeze(-1)
    return (q @ summary) / (normaliser + 1e-6)


def cosine_attention(q: Tensor, k: Tensor, v: Tensor, temperature: Tensor) -> Tensor:
    q = q / q.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    k = k / k.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return torch.softmax(q @ k.mT * temperature.exp(), dim=-1) @ v


def additive_attention(x: Tensor, w: Tensor, u: Tensor) -> Tensor:
    scores = torch.tanh(x @ w) @ u
    weights = torch.softmax(scores, dim=1)
    return (weights.unsqueeze(-1) * x).sum(dim=1)


def _keep(batch: int, length: int) -> Tensor:
    keep = flags(batch, length)
    keep[:, 0] = True
    return keep


FORWARDS = (
    *(
        Forward(function, lambda n: tuple(real(*sequences(n)) for _ in range(3)))
        for function in (scaled_dot_product, causal_attention, linear_attention)
    ),
    Forward(
        attention_with_bias,
        lambda n: (*(real(*sequences(n)) for _ in range(3)), real(sequences(n)[1], sequences(n)[1])),
    ),
    Forward(
        attention_with_padding,
        lambda n: (*(real(*sequences(n)) for _ in range(3)), _keep(*sequences(n)[:2])),
    ),
    Forward(
        multi_head_attention,
        lambda n: (
            real(*sequences(n)),
            real(sequences(n)[2], 3 * sequences(n)[2]),
            real(sequences(n)[2], sequences(n)[2]),
        ),
    ),
    Forward(cosine_attention, lambda n: (*(real(*sequences(n)) for _ in range(3)), real(1))),
    Forward(
        additive_attention,
        lambda n: (real(*sequences(n)), real(sequences(n)[2], sequences(n)[2]), real(sequences(n)[2])),
    ),
)
