"""A GPT in plain torch: the decoder of "Attention Is All You Need" as GPT-2 has it, normalised before each sublayer.

With tokens t_1 .. t_T, embeddings E [V, C] and P [T, C], of each block

    x   = E[t] + P                                                      [T, C]
    x  += attention(norm(x)),   heads softmax(Q Kᵀ / sqrt(C / heads), no later token) V, joined and multiplied by W_o
    x  += gelu(norm(x) W_upᵀ) W_downᵀ                                   [T, 4C] within
    logits = norm(x) Eᵀ                                                 [T, V]: the embedding once more

There are no biases; norm has a gain. Weights begin as normal(0, 0.02), those that write on x divided by the square root
of how many do. Source: Vaswani et al. 2017, arXiv:1706.03762; Radford et al. 2019 (GPT-2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Size:
    """Of nanoGPT's run on a CPU: 0.8 million weights."""

    vocabulary: int
    block: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads can't share a width of {self.width}")


class Block(nn.Module):
    """One layer: attention, then the perceptron, each added to what it was given."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm_attention = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_perceptron = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, C] -> [B, T, C]."""
        batch, time, width = x.shape
        split = (batch, time, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(self.norm_attention(x)).split(width, 2))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm_perceptron(x))))


class GPT(nn.Module):
    """Logits of the next token. ``state_dict`` is that of ``fused.FusedGPT`` too."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.block, size.width)
        self.blocks = nn.ModuleList(self.new_block() for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                writes = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * size.layers) if writes else 0.02)

    def new_block(self) -> nn.Module:
        return Block(self.size)

    def features(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> what the logits are made of [B, T, C]."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> logits [B, T, V]."""
        return F.linear(self.features(tokens), self.tokens.weight)

    @torch.no_grad()
    def sample(self, tokens: Tensor, count: int, *, generator: torch.Generator) -> Tensor:
        """``tokens`` [T] and ``count`` more, each drawn from what the model thinks of the last ``block`` ones."""
        for _ in range(count):
            logits = self(tokens[-self.size.block :].unsqueeze(0))[0, -1]
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(0), 1, generator=generator)])
        return tokens
