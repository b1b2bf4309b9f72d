"""What the values of a loss show of its kind. The value where it raises is NaN, which passes no comparison."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from gradwright.checking.losses.kinds import Kind
from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.rays import rays


def behaves(loss: Loss, kind: Kind, sample: Sample, sign: float = 1.0) -> bool:
    """Do the values show that it is a loss of this kind? ``sign``: -1 asks for its negative."""
    if kind == "regression":
        if sample.prediction.numel() != sample.target.numel():
            return False
        if sample.extras:
            return _least_at_target(loss, sample, free=True)
        if depends_on_error(loss, sample):
            return loss.names_target or not _is_odd(loss, sample)
        return _least_at_target(loss, sample)
    if kind == "binary probabilities" and _only_between_0_and_1(loss, sample):
        return True
    return _rises(loss, kind, sample, sign)


def close(loss: Loss, one: float, other: float) -> bool:
    tolerance = 1e-9 if loss.fine else 1e-4
    return math.isfinite(one) and abs(one - other) <= tolerance * max(abs(one), abs(other), 1e-3)


def depends_on_error(loss: Loss, sample: Sample) -> bool:
    """Does the value stay when prediction and target move together, each element by an amount of its own?"""
    target = sample.target.to(torch.float64)
    error = (sample.prediction.reshape(target.shape) - target).reshape(target.shape)
    generator = torch.Generator().manual_seed(loss.seed + 2)
    seen = []
    for size in (1.0, 0.1, 4.0):
        other = target + torch.randn(target.shape, generator=generator, dtype=torch.float64, device="cpu")
        values = [
            loss.attempt(sample.at((truth + size * error).reshape(sample.prediction.shape), truth))
            for truth in (target, other)
        ]
        if not close(loss, values[0], values[1]):
            return False
        seen.append(values[0])
    return not all(close(loss, seen[0], value) for value in seen)  # a constant depends on nothing


def _is_odd(loss: Loss, sample: Sample) -> bool:
    """Does it fall for errors of one sign as it rises for the other, at every element: a difference, or a critic?"""
    target = sample.target.to(torch.float64).reshape(sample.prediction.shape)
    start = loss.attempt(sample.at(target))
    moves = [
        (loss.attempt(sample.at(target + move)) - start, loss.attempt(sample.at(target - move)) - start)
        for size in (0.03, 0.1, 0.5, 2.0, 10.0)
        for move in _moves(target, size)
    ]
    opposite = [up * down < 0 for up, down in moves]
    return sum(opposite) > len(opposite) / 2


def _least_at_target(loss: Loss, sample: Sample, *, free: bool = False) -> bool:
    """Is every value near the target higher than there, and that one next to nothing (unless ``free``)?"""
    target = sample.target.to(torch.float64).reshape(sample.prediction.shape)
    start = loss.attempt(sample.at(target))
    if not free and not abs(start) <= 0.02 * abs(loss.attempt(sample.at(target + _moves(target, 1.0)[0]))):
        return False  # what is least at its target for another reason: a cross entropy of soft labels, a contrast
    higher = 0
    moves = [sign * move for size in (0.02, 0.1, 0.3) for move in _moves(target, size) for sign in (1, -1)]
    for move in moves:
        value = loss.attempt(sample.at(target + move))
        if not value >= start - 1e-9 * max(abs(start), 1e-3):
            return False
        higher += value > start + 1e-9 * max(abs(start), 1e-3)
    return higher > len(moves) / 2


def _moves(target: Tensor, size: float) -> list[Tensor]:
    """A few elements each by itself, and all of them by random amounts."""
    generator = torch.Generator().manual_seed(7)
    every = [torch.randn(target.shape, generator=generator, dtype=torch.float64, device="cpu") for _ in range(3)]
    single = []
    for at in sorted({0, 1, target.numel() // 2, target.numel() - 1} & set(range(target.numel()))):
        one = torch.zeros(target.numel(), dtype=torch.float64, device="cpu")
        one[at] = 1.0
        single.append(one.reshape(target.shape))
    return [size * move for move in (*every, *single)]


def _only_between_0_and_1(loss: Loss, sample: Sample) -> bool:
    outside = (sample.at(sample.prediction + 1.5), sample.at(-sample.prediction - 0.5))
    return loss.accepts(sample) and not any(loss.accepts(moved) for moved in outside)


def _rises(loss: Loss, kind: Kind, sample: Sample, sign: float) -> bool:
    """Along every line, every element by itself too, it is higher where the prediction is more wrong.

    A loss of probabilities is also next to nothing where they are right; one of scores does not go on falling for
    scores that are ever more confidently right.
    """
    for ray in rays(kind, sample, coarse=True):
        steps = (0.02, 0.35, 0.65, 0.98) if "probabilities" in kind and "binary" in kind else (-8.0, -1.0, 1.0, 6.0)
        values = [sign * loss.attempt(ray.at(s)) for s in steps]
        slack = 1e-9 * max(map(abs, values))
        if not all(after >= before - slack for before, after in pairwise(values[1:])):
            return False
        if not values[-1] > values[0] + 1e-6 * abs(values[0]):
            return False
        if kind == "binary probabilities":
            right, wrong = (sign * loss.attempt(ray.at(s)) for s in (1e-6, 1 - 1e-6))
            if ray.whole and not abs(right) <= 1e-3 * abs(wrong):
                return False
        elif kind != "class log-probabilities" and kind != "class probabilities":
            far, farther = (sign * loss.attempt(ray.at(s)) for s in (-60.0, -200.0))
            if not farther >= far - 1e-6 * max(abs(far), abs(values[-1])):
                return False
    return True
