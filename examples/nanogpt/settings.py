"""What both loops are told: nanoGPT's settings for a CPU, the optimizer and the schedule of its learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    """``python train.py config/train_shakespeare_char.py --device=cpu --compile=False --block_size=64 --batch_size=12
    --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0``, and what that
    leaves as it is.

    ``accumulation_steps``: micro-batches of one update, on each rank.
    """

    batch_size: int = 12
    accumulation_steps: int = 1
    steps: int = 2000
    learning_rate: float = 1e-3
    least_learning_rate: float = 1e-4
    warmup: int = 100
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1
    max_norm: float = 1.0
    seed: int = 1337

    def optimizer(self, model: nn.Module) -> torch.optim.AdamW:
        """AdamW in one kernel; matrices decay, gains don't."""
        matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
        gains = [weight for weight in model.parameters() if weight.ndim < 2]
        groups = [{"params": matrices}, {"params": gains, "weight_decay": 0.0}]
        return torch.optim.AdamW(
            groups, lr=self.learning_rate, betas=self.betas, weight_decay=self.weight_decay, fused=True
        )

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
        """Up in a line, then down by half a cosine."""
        return torch.optim.lr_scheduler.LambdaLR(optimizer, self._share)

    def _share(self, update: int) -> float:
        least = self.least_learning_rate / self.learning_rate
        if update < self.warmup:
            return (update + 1) / (self.warmup + 1)
        done = min(1.0, (update - self.warmup) / max(1, self.steps - self.warmup))
        return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * done))
