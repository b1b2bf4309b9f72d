"""Lines of predictions along which a loss is looked at.

A *ray* is a line of predictions on which one number ``s`` says how wrong they are: the error itself for a regression,
minus the margin for scores, the distance of a probability from its label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.checking.losses.kinds import Kind, in_domain, right_scores
from gradwright.checking.losses.loss import Sample

# An odd step: a threshold in a round number falls between the points, not on one.
_FINE = 0.0537


@dataclass(frozen=True)
class Ray:
    """``at(s)`` for ``s`` in ``grid``, from right to wrong. ``tell(s)`` says where that is; ``wrong_from``: beyond it,
    the loss must not fall, whatever it does where the prediction is confidently right. ``whole``: every element moves.
    ``side``: +1 or -1 for an error of that sign, 0 for both or neither. ``straight``: predictions are linear in ``s``.
    """

    name: str
    at: Callable[[float], Sample]
    grid: tuple[float, ...]
    tell: Callable[[float], str]
    wrong_from: float = 0.0
    whole: bool = True
    side: int = 0
    straight: bool = True


def rays(kind: Kind, sample: Sample, *, positive: bool = False, coarse: bool = False) -> list[Ray]:
    """The lines on which the loss is looked at; empty for kind "other"."""
    if kind == "regression":
        return _errors(sample, positive, coarse)
    if kind.startswith("class"):
        return _class_scores(kind, sample, coarse)
    if kind == "binary probabilities":
        return _probabilities(sample, coarse)
    return _scores(kind, sample, coarse) if kind.startswith("binary") else []


def _errors(sample: Sample, positive: bool, coarse: bool) -> list[Ray]:
    target = sample.target.to(torch.float64).reshape(sample.prediction.shape)
    step = 3 * _FINE if coarse else _FINE
    grid = (0.0, 1e-4, 1e-3, 1e-2, *_arange(step, 3.3, step), *_geometric(3.3, 1e3, 1.5 if coarse else 1.17))
    one = torch.zeros_like(target).reshape(-1)
    one[one.numel() // 2] = 1.0
    one = one.reshape(target.shape)
    mixed = 1.0 - 2.0 * (torch.arange(target.numel()).reshape(target.shape) % 2).to(target)

    def line(name: str, direction: Tensor, side: int, whole: bool) -> Ray:
        def at(s: float) -> Sample:
            if positive and side < 0:
                return sample.at(target + direction * target * s / (1 + s))
            return sample.at(target + s * direction)

        def tell(s: float) -> str:
            if positive and side < 0:
                return f"prediction = target / {1 + s:.4g}"
            return f"|e| = {s:.4g}" if side == 0 else f"e = {side * s + 0.0:.4g}"

        return Ray(name, at, grid, tell, whole=whole, side=side, straight=not (positive and side < 0))

    found = [line("e > 0", torch.ones_like(target), 1, True), line("e < 0", -torch.ones_like(target), -1, True)]
    if target.numel() > 1:
        found += [line("e > 0, one element", one, 1, False), line("e < 0, one element", -one, -1, False)]
        if not positive:
            found.append(line("e of both signs", mixed, 0, True))
    return found


def _scores(kind: Kind, sample: Sample, coarse: bool) -> list[Ray]:
    margin = kind == "binary margin"
    label = sample.target.to(torch.float64) if margin else (sample.target > 0.5).to(torch.float64) * 2 - 1
    label = label.reshape(sample.prediction.shape)
    grid = _both_ways(coarse)
    found = [
        Ray("every score", lambda s: sample.at(-s * label), grid, lambda s: f"margin {-s:.4g}"),
    ]
    for sign in (1.0, -1.0):
        where = (label.reshape(-1) == sign).nonzero()
        if label.numel() > 1 and len(where):
            found.append(_one_score(sample, label, int(where[len(where) // 2]), sign, grid, margin))
    return found


def _one_score(sample: Sample, label: Tensor, at: int, sign: float, grid: tuple[float, ...], margin: bool) -> Ray:
    base = sample.prediction.to(torch.float64)

    def moved(s: float) -> Sample:
        prediction = base.clone().reshape(-1)
        prediction[at] = -s * sign
        return sample.at(prediction.reshape(base.shape))

    told = f"{sign:g}" if margin else f"{(sign + 1) / 2:g}"
    return Ray(f"one score of label {told}", moved, grid, lambda s: f"score {-s * sign:.4g}, label {told}", whole=False)


def _probabilities(sample: Sample, coarse: bool) -> list[Ray]:
    label = (sample.target > 0.5).to(torch.float64).reshape(sample.prediction.shape)
    grid = (1e-4, 1e-3, 1e-2, *_arange(0.0213, 0.99, 0.06 if coarse else 0.0213), 0.99, 0.999, 0.9999)
    base = sample.prediction.to(torch.float64)

    def one(at: int) -> Callable[[float], Sample]:
        def moved(s: float) -> Sample:
            prediction = base.clone().reshape(-1)
            prediction[at] = abs(float(label.reshape(-1)[at]) - s)
            return sample.at(prediction.reshape(base.shape))

        return moved

    found = [
        Ray("every probability", lambda s: sample.at((label - s).abs()), grid, lambda s: f"|p - label| = {s:.4g}", 0.5)
    ]
    for bit in (1.0, 0.0):
        where = (label.reshape(-1) == bit).nonzero()
        if label.numel() > 1 and len(where):
            found.append(
                Ray(
                    f"one probability of label {bit:g}",
                    one(int(where[len(where) // 2])),
                    grid,
                    lambda s, bit=bit: f"p = {abs(bit - s):.4g}, label {bit:g}",  # type: ignore[misc]  # the bound default
                    0.5,
                    whole=False,
                )
            )
    return found


def _class_scores(kind: Kind, sample: Sample, coarse: bool) -> list[Ray]:
    grid = _both_ways(coarse)
    scores = sample.prediction.to(torch.float64)
    straight = kind == "class logits"
    if kind == "class probabilities":
        scores = scores.clamp(min=1e-6).log()

    def ray(name: str, rows: slice, whole: bool) -> Ray:
        right = right_scores(scores, sample.target, rows)

        def moved(s: float) -> Sample:
            return sample.at(in_domain(kind, scores.masked_fill(right, -s), sample.target))

        return Ray(name, moved, grid, tell, whole=whole, straight=straight)

    def tell(s: float) -> str:
        return f"right class's score {-s:.4g}"

    found = [ray("every row", slice(None), True)]
    if scores.ndim > 1 and scores.shape[0] > 1:
        found.append(ray("one row", slice(0, 1), False))
    return found


def _arange(start: float, end: float, step: float) -> tuple[float, ...]:
    return tuple(start + step * number for number in range(int((end - start) / step)))


def _geometric(start: float, end: float, ratio: float) -> Iterator[float]:
    while start < end:
        yield start
        start *= ratio


def _both_ways(coarse: bool) -> tuple[float, ...]:
    step = 0.7537 if coarse else 0.2537
    return (-100.0, -40.0, *_arange(-15.0371, 15.0, step), 25.0, 40.0, 60.0, 80.0)
