"""Columns of the Jacobian by differences: the truth at chosen entries of an input, for any cotangent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradwright.checking.evidence import Point
from gradwright.checking.trial import TimeUp, Trial, flat

MOST = 64
# Numbers that the columns may hold together, and numbers that may be moved to find them.
ROOM, WORK = 8_000_000, 30_000_000


@dataclass(frozen=True)
class Columns:
    """``matrix``: one column per entry, one row per number in the outputs. ``doubt``: relative to the largest truth."""

    entries: torch.Tensor
    matrix: torch.Tensor
    doubt: float
    exact: bool = False
    closely: bool = False

    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """The gradient at ``entries``."""
        return torch.cat([flat(cotangent) for cotangent in cotangents]) @ self.matrix

    def elsewhere(self, point: Point, index: int) -> Columns:
        return columns_at(point, index, closely=self.closely)


def columns_at(point: Point, index: int, also: Sequence[int] = (), *, closely: bool = False) -> Columns:
    """The columns at up to ``MOST`` entries; unstable ones left out.

    Of a large input, those in ``also``, those where the backward's entries are largest and a random choice.
    ``closely``: as exactly as differences can be. Cost: 4 calls an entry (10 if ``closely``), 16 where the first steps
    do not agree.
    """
    trial = point.trial
    height = sum(value.numel() for value in trial.values)
    count = point.returned[index].numel()
    most = max(8, min(MOST, ROOM // max(height, 1), WORK // (8 * (height + count) + 1)))
    chosen = _chosen(point, index, most, also)
    scale = trial.entry_scale(index)
    kept: list[int] = []
    found: list[torch.Tensor] = []
    doubts: list[float] = []
    try:
        for entry in chosen:
            size, unit = point.size(index), float(scale[entry])
            column, doubt = (_sharp_column if closely else _column)(trial, index, entry, unit, size)
            if column is not None:
                kept.append(entry)
                found.append(column)
                doubts.append(doubt)
    except TimeUp:
        if not kept:
            raise
    matrix = torch.stack(found, 1) if found else torch.zeros(height, 0, dtype=torch.float64, device="cpu")
    truth = torch.cat([flat(cotangent) for cotangent in trial.cotangents]) @ matrix
    largest = float(truth.abs().max()) if kept else 0.0
    least = 1e-11 if closely else 1e-9 if trial.precision.name == "float64" else 1e-3
    doubt = max(least, min(max(doubts, default=0.0) / max(largest, 1e-300), 10 * trial.precision.differences))
    return Columns(torch.tensor(kept, dtype=torch.long, device="cpu"), matrix, doubt, closely=closely)


def _chosen(point: Point, index: int, most: int, also: Sequence[int]) -> list[int]:
    count = point.returned[index].numel()
    if count <= most:
        return list(range(count))
    largest = point.returned[index].abs().topk(most // 2).indices
    anywhere = torch.randperm(count, generator=point.generator, device="cpu")[: most // 2]
    ends = {0, count - 1}
    return sorted({*ends, *also, *largest.tolist(), *anywhere.tolist()})


def _column(trial: Trial, index: int, entry: int, scale: float, size: float) -> tuple[torch.Tensor | None, float]:
    """One column and how far the gradient's entry may be off; ``None`` where no steps agree (see ``slope``)."""
    weights = torch.cat([flat(cotangent) for cotangent in trial.cotangents]).abs()
    here = torch.cat(trial.values)
    output, goal = trial.output_size(), trial.precision.differences * size * scale
    best: tuple[bool, float, torch.Tensor | None] = (True, float("inf"), None)
    known: dict[float, tuple[torch.Tensor, float]] = {}

    def at(step: float) -> tuple[torch.Tensor, float]:
        if step not in known:
            shift = torch.zeros_like(trial.inputs[index])
            shift[entry] = step * scale
            up, down = torch.cat(trial.evaluate(index, shift)), torch.cat(trial.evaluate(index, -shift))
            known[step] = (up - down) / (2 * step), float(weights @ (up - 2 * here + down).abs()) / step
        return known[step]

    for wide, narrow in trial.precision.steps:
        (one, bend), (two, less), ratio = at(wide), at(narrow), wide / narrow
        noise = 4 * trial.precision.eps * output / narrow
        error = float(weights @ (one - two).abs()) + noise
        kinked = bend / ratio**0.5 < less < bend * ratio**0.5 and less > goal + 10 * noise
        column = (ratio**2 * two - one) / (ratio**2 - 1)
        if bool(torch.isfinite(column).all()) and (kinked, error) < best[:2]:
            best = (kinked, error, column)
        if error <= goal and not kinked:
            break
    kinked, error, found = best
    if found is None or kinked:
        return None, 0.0
    typical = float(weights @ found.abs())
    if not error <= 1e-2 * max(typical, size * scale) + goal:
        return None, 0.0
    return found / scale, error / scale


def _sharp_column(trial: Trial, index: int, entry: int, scale: float, size: float) -> tuple[torch.Tensor | None, float]:
    """As ``_column``, by Romberg's table (see ``sharp_slope``)."""
    weights = torch.cat([flat(cotangent) for cotangent in trial.cotangents]).abs()
    shift = torch.zeros_like(trial.inputs[index])
    shift[entry] = scale
    best: tuple[float, torch.Tensor | None] = (float("inf"), None)
    for widest in (1.6e-2, 3.2e-4):
        steps = [widest / 2**k for k in range(5)]
        table = [
            (torch.cat(trial.evaluate(index, shift, step)) - torch.cat(trial.evaluate(index, shift, -step)))
            / (2 * step)
            for step in steps
        ]
        last = table
        for power in range(1, len(table)):
            last, table = table, [(4**power * b - a) / (4**power - 1) for a, b in itertools.pairwise(table)]
        error = max(float(weights @ (table[0] - one).abs()) for one in last)
        error += 4 * trial.precision.eps * float(weights @ table[0].abs()) / steps[-1]
        if error < best[0]:
            best = (error, table[0])
        if error < 1e-10 * size * scale:
            break
    error, column = best
    if column is None or not error <= 1e-5 * size * scale:
        return None, 0.0
    return column / scale, error / scale
