"""Samples out of the ordinary, at which a loss has to be finite all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.checking.losses.kinds import Kind, in_domain, with_right_score
from gradwright.checking.losses.loss import Sample
from gradwright.checking.losses.rays import rays

MAGNITUDES = (1.0, 3.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1e4, 1e8)


@dataclass(frozen=True)
class Point:
    """A sample out of the ordinary. ``magnitude``: how far out on ``line``; ``infinite``: the truth may be inf here."""

    words: str
    sample: Sample
    line: str
    magnitude: float
    infinite: bool = False


def extremes(kind: Kind, sample: Sample, *, of_error: bool, positive: bool = False) -> Iterator[Point]:
    """Samples at which a loss of this kind has to be finite, nearest first on each line.

    ``of_error``: it depends on the error alone, so that targets can be anything; what divides by its target, or by how
    much the targets vary, is not asked about targets that are all 0.
    """
    if kind == "regression":
        yield from _extreme_errors(sample, of_error, positive)
    elif kind == "binary probabilities":
        label = (sample.target > 0.5).to(torch.float64).reshape(sample.prediction.shape)
        ones, zeros = torch.ones_like(label), torch.zeros_like(label)
        yield Point("probabilities that are exactly right", sample.at(label), "right", 1.0)
        yield Point("all probabilities 1 and all labels 1", sample.at(ones, _like(ones, sample)), "ones", 1.0)
        yield Point("all probabilities 0 and all labels 0", sample.at(zeros, _like(zeros, sample)), "zeros", 1.0)
        yield Point("probabilities that are exactly wrong", sample.at(1 - label), "wrong", 1.0, infinite=True)
    elif kind.startswith("binary"):
        ray = rays(kind, sample, coarse=True)[0]
        yield Point("all scores 0", sample.at(torch.zeros_like(sample.prediction)), "zero", 1.0)
        for sign in (1.0, -1.0):
            for size in MAGNITUDES:
                yield Point(f"scores with margin {sign * size:g}", ray.at(-sign * size), f"{sign}", size)
    elif kind.startswith("class"):
        zeros = torch.zeros_like(sample.prediction)
        yield Point("equal scores", sample.at(in_domain(kind, zeros, sample.target)), "zero", 1.0)
        for sign in (1.0, -1.0):
            for size in MAGNITUDES:
                scores = with_right_score(zeros, sample.target, sign * size)
                words = f"scores of {sign * size:g} for the right class"
                infinite = kind == "class probabilities" and sign < 0
                yield Point(words, sample.at(in_domain(kind, scores, sample.target)), f"{sign}", size, infinite)


def _like(target: Tensor, sample: Sample) -> Tensor:
    return target.reshape(sample.target.shape).to(sample.target.dtype)


def _extreme_errors(sample: Sample, of_error: bool, positive: bool) -> Iterator[Point]:
    target = sample.target.to(torch.float64).reshape(sample.prediction.shape)
    yield Point("a perfect prediction", sample.at(target), "right", 1.0)
    for size in (0.0, 1e4, 1e8) if of_error else ():
        even = torch.full_like(target, size)
        yield Point(f"prediction and target {size:g}", sample.at(even, _like(even, sample)), "even", max(size, 1.0))
    for sign in (1.0,) if positive else (1.0, -1.0):
        for size in MAGNITUDES if of_error else MAGNITUDES[:-1]:  # what normalises cancels there
            yield Point(f"an error of {sign * size:g}", sample.at(target + sign * size), f"{sign}", size)
