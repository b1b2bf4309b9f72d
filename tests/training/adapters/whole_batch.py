"""What the adapters' cases train on, and the steps with the full batch that their windows stand for."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORLD, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
SEQUENCES, LENGTH, WORDS, MICRO, RATE = 20, 9, 13, 2, 0.5
STEPS = 4 // WORLD  # micro-batches of a window, each rank
WINDOWS = [(0, 8), (8, 16), (16, 20)]


def tokens() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    words = torch.randint(0, WORDS, (SEQUENCES, LENGTH))
    labels = words.clone()
    for row in range(SEQUENCES):
        labels[row, 1 + (row * row + 3 * row) % LENGTH :] = -100
    labels[18:] = -100
    labels[5] = words[5]
    return words, labels


WORDS_IN, LABELS = tokens()


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)
        self.double()

    def forward(self, words: Tensor) -> Tensor:
        return self.out(torch.tanh(self.table(words)))


def loss_of(model: nn.Module, words: Tensor, labels: Tensor, reduction: str = "sum") -> Tensor:
    return F.cross_entropy(model(words).transpose(1, 2), labels, reduction=reduction)


def counted(batch: Any) -> Tensor:
    return (batch[1] != -100).sum()


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])


def error(model: nn.Module, start: Tensor, reference: Tensor) -> float:
    return float((flat(model) - reference).norm() / (reference - start).norm())


def full_batch(
    model: nn.Module, loss: Callable[[nn.Module, slice], Tensor], adam: bool = False
) -> tuple[Tensor, Tensor]:
    """The parameters before and after the steps that the windows stand for; one without items is none."""
    model = copy.deepcopy(model)
    start = flat(model)
    optimizer = optimizer_of(model, adam)
    for window in WINDOWS:
        value = loss(model, slice(*window))
        if torch.isnan(value):
            continue
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return start, flat(model)


def optimizer_of(model: nn.Module, adam: bool = False) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 0.05) if adam else torch.optim.SGD(model.parameters(), RATE)


def tagger_reference() -> tuple[Tensor, Tensor]:
    return full_batch(Tagger(), lambda model, rows: loss_of(model, WORDS_IN[rows], LABELS[rows], "mean"))
