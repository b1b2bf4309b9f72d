"""The same GPT of two gradients written by hand, which keep less for the backward.

Notation: rows x [N, C] of N tokens; n = norm(x), a LayerNorm with a gain; weights as nn.Linear holds them, [out, in];
ȳ for dL/dy. Of y = n Wᵀ

    W̄ = ȳᵀ n,    n̄ = ȳ W,    and x̄, gain̄ by the backward of the norm

with x all that is kept: n is made again. What plain torch keeps of a layer, in units of N C numbers: x, norm(x), q k v
(3), what the heads say, x, norm(x), a (4), gelu(a) (4): 16. Here: x, q k v (3), what the heads say, x, a (4): 10.
norm(x) and gelu(a) are made again in the backward, in one pass each; no product is.
"""

from __future__ import annotations

import torch
from model import GPT, Block
from torch import Tensor, nn
from torch.nn import functional as F

import gradwright as gw

EPS = 1e-5  # nn.LayerNorm's
aten = torch.ops.aten

gelu = gw.elementwise("0.5 * a * (1 + erf(sqrt(0.5) * a))")
of_gelu = gw.elementwise("of_h * (0.5 * (1 + erf(sqrt(0.5) * a)) + sqrt(0.5 / pi) * a * exp(-0.5 * a * a))")  # ā


def normalized(x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """norm(x) [N, C], and of each row its mean and 1 / std [N, 1]."""
    return torch.native_layer_norm(x, gain.shape, gain, None, EPS)


def of_normalized(of_n: Tensor, x: Tensor, gain: Tensor, mean: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """x̄ and gain̄."""
    return aten.native_layer_norm_backward(of_n, x, gain.shape, mean, r, gain, None, [True, True, False])[:2]


@gw.custom_gradient
def norm_linear(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    """norm(x) Wᵀ: x [N, C], gain [C], weight [K, C] -> [N, K]."""
    return normalized(x, gain)[0] @ weight.t()


@norm_linear.backward
def _(cotangent: Tensor, x: Tensor, gain: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n, mean, r = normalized(x, gain)
    return *of_normalized(cotangent @ weight, x, gain, mean, r), cotangent.t() @ n


@gw.custom_gradient
def perceptron(x: Tensor, gain: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """x + gelu(a) W_downᵀ, a = norm(x) W_upᵀ: x [N, C], up [4C, C], down [C, 4C] -> [N, C]."""
    a = normalized(x, gain)[0] @ up.t()
    return torch.addmm(x, gelu(a), down.t()), gw.residuals(a=a)


@perceptron.backward
def _(
    cotangent: Tensor, x: Tensor, gain: Tensor, up: Tensor, down: Tensor, a: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W̄_down = ȳᵀ gelu(a),   ā = (ȳ W_down) gelu'(a); x gets ȳ beside what comes through norm."""
    of_down = cotangent.t() @ gelu(a)
    of_a = of_gelu(cotangent @ down, a)
    n, mean, r = normalized(x, gain)
    of_x, of_gain = of_normalized(of_a @ up, x, gain, mean, r)
    return of_x.add_(cotangent), of_gain, of_a.t() @ n, of_down


class FusedBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        rows = x.view(-1, width)
        qkv = norm_linear(rows, self.norm_attention.weight, self.qkv.weight)
        split = (batch, time, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in qkv.split(width, 1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        rows = torch.addmm(rows, heads.transpose(1, 2).reshape(-1, width), self.out.weight.t())
        return perceptron(rows, self.norm_perceptron.weight, self.up.weight, self.down.weight).view_as(x)


class FusedGPT(GPT):
    """``model.GPT`` to rounding, weight for weight."""

    def new_block(self) -> nn.Module:
        return FusedBlock(self.size)


def fused_like(model: GPT) -> FusedGPT:
    """Another one with the same weights."""
    fused = FusedGPT(model.size).to(model.norm.weight.dtype)
    fused.load_state_dict(model.state_dict())
    return fused
