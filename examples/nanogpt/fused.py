"""The same GPT of two gradients written by hand, which keep less for the backward.

Notation: rows x [N, C] of N tokens; z = (x - mean) / std of each row, r = 1 / std; norm(x) = gain z; weights as
nn.Linear holds them, [out, in]; ȳ for dL/dy. The gain is moved into the weights behind it, norm(x) Wᵀ = z Vᵀ with
V = W gain, so

    V̄ = ȳᵀ z,    W̄ = V̄ gain,    gain̄ = sum over rows of V̄ W,    z̄ = ȳ V,    x̄ = r (z̄ - mean(z̄) - z mean(z̄ z))

and z is all that is kept, neither x nor norm(x). What plain torch keeps of a layer, in units of N C numbers: x,
norm(x), q k v (3), what the heads say, x, norm(x), a (4), gelu(a) (4): 16. Here: z, q k v (3), what the heads say, z,
a (4): 10. gelu(a) is made again in the backward, in one pass; no product is.
"""

from __future__ import annotations

import torch
from model import GPT, Block
from torch import Tensor, nn
from torch.nn import functional as F

import gradwright as gw

EPS = 1e-5  # nn.LayerNorm's
aten = torch.ops.aten


def standardized(x: Tensor) -> tuple[Tensor, Tensor]:
    """z and r of x [N, C]: [N, C], [N, 1]."""
    z, _, r = torch.native_layer_norm(x, x.shape[1:], None, None, EPS)
    return z, r


def of_standardized(of_z: Tensor, z: Tensor, r: Tensor) -> Tensor:
    """x̄: torch's kernel for a mean of 0 and an r of 1, times r."""
    zero, one = torch.zeros_like(r), torch.ones_like(r)
    of_x = aten.native_layer_norm_backward(of_z, z, z.shape[1:], zero, one, None, None, [True, False, False])[0]
    return of_x.mul_(r)


def of_scaled(of_product: Tensor, weight: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """gain̄ and W̄ of V̄."""
    return (of_product * weight).sum(0), of_product * gain


@gw.custom_gradient
def norm_linear(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    """norm(x) Wᵀ: x [N, C], gain [C], weight [K, C] -> [N, K]."""
    z, r = standardized(x)
    return z @ (weight * gain).t(), gw.residuals(z=z, r=r)


@norm_linear.backward
def _(cotangent: Tensor, gain: Tensor, weight: Tensor, z: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    of_x = of_standardized(cotangent @ (weight * gain), z, r)
    return of_x, *of_scaled(cotangent.t() @ z, weight, gain)


@gw.custom_gradient
def perceptron(x: Tensor, gain: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """x + gelu(a) W_downᵀ, a = norm(x) W_upᵀ: x [N, C], up [4C, C], down [C, 4C] -> [N, C]."""
    z, r = standardized(x)
    a = z @ (up * gain).t()
    return torch.addmm(x, F.gelu(a), down.t()), gw.residuals(z=z, r=r, a=a)


@perceptron.backward
def _(
    cotangent: Tensor, gain: Tensor, up: Tensor, down: Tensor, z: Tensor, r: Tensor, a: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W̄_down = ȳᵀ gelu(a),   ā = (ȳ W_down) gelu'(a); x gets ȳ beside what comes through norm."""
    of_down = cotangent.t() @ F.gelu(a)
    of_a = aten.gelu_backward(cotangent @ down, a)
    of_x = of_standardized(of_a @ (up * gain), z, r).add_(cotangent)
    return of_x, *of_scaled(of_a.t() @ z, up, gain), of_down


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
