"""What kinds of loss there are, and what predictions and targets each takes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gradwright.checking.losses.loss import Sample

Kind = Literal[
    "regression",
    "binary logits",
    "binary probabilities",
    "binary margin",
    "class logits",
    "class log-probabilities",
    "class probabilities",
    "other",
]


def draw(kind: Kind, shape: tuple[int, ...], generator: torch.Generator, *, positive: bool = False) -> Sample:
    """An ordinary prediction and its target, float64 on the CPU; of class kinds ``shape`` is (rows, classes, ...)."""

    def normal(size: tuple[int, ...]) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64, device="cpu").round(decimals=3)

    prediction = normal(shape)
    if kind.startswith("class"):
        rest = (shape[0], *shape[2:])
        target = torch.arange(torch.Size(rest).numel(), device="cpu").reshape(rest) % shape[1]
        return Sample(in_domain(kind, prediction, target), target)
    if kind.startswith("binary"):
        count = torch.arange(torch.Size(shape).numel(), device="cpu")
        bits = (5 * count % 7 % 2).to(torch.float64).reshape(shape)  # both labels, in no pattern of rows
        return Sample(in_domain(kind, prediction, bits), bits * 2 - 1 if kind == "binary margin" else bits)
    if positive:
        return Sample(normal(shape).abs() + 0.5, normal(shape).abs() + 0.5)
    return Sample(prediction, 1.5 * normal(shape))


def in_domain(kind: Kind, scores: Tensor, target: Tensor) -> Tensor:
    """Real scores as predictions of the kind."""
    axis = class_axis(scores)
    if kind == "class log-probabilities":
        return scores.log_softmax(axis)
    if kind == "class probabilities":
        return scores.softmax(axis)
    return scores.sigmoid() if kind == "binary probabilities" else scores


def class_axis(scores: Tensor) -> int:
    return 1 if scores.ndim > 1 else 0


def right_scores(scores: Tensor, target: Tensor, rows: slice = slice(None)) -> Tensor:
    """Which of ``scores`` (rows, classes, ...) are those of right classes; none for labels that are no class."""
    axis = class_axis(scores)
    valid = (target >= 0) & (target < scores.shape[axis])
    right = torch.nn.functional.one_hot(target.clamp(0, scores.shape[axis] - 1), scores.shape[axis]).movedim(-1, axis)
    chosen = right.bool() & valid.unsqueeze(axis)
    only = torch.zeros_like(chosen)
    only[rows if scores.ndim > 1 else slice(None)] = True
    return chosen & only


def with_right_score(scores: Tensor, target: Tensor, score: float) -> Tensor:
    """``scores`` (rows, classes, ...) with ``score`` for each right class."""
    return scores.masked_fill(right_scores(scores, target), score)
