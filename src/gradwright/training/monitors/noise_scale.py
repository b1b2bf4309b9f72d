"""The gradient noise scale: how large a batch has to be before its gradient is more signal than noise."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.monitors.monitor import Gradients, Monitor
from gradwright.training.monitors.noise_estimate import NoiseScale, RatioOfMeans
from gradwright.training.monitors.turns import Turns
from gradwright.training.products import squares

_LEAST = 8  # windows, before an interval means anything
_ONE_EACH = "no window had two micro-batches whose gradients could be told apart"
_COUPLED = "the loss couples samples, so that no micro-batch has a gradient of its own"
_SHARDED = "sharded gradients are not seen before they are shared: sync='every'"


class GradientNoiseScale(Monitor):
    """Estimates the noise scale tr(Sigma) / |G|² from micro-batches and their window, and the batch it suggests.

    ::

        noise = GradientNoiseScale()
        acc = GradientAccumulator(model, optimizer, accumulation_steps=8, monitors=[noise], ...)
        ...
        print(noise.estimate())

    Notation: G is the true gradient, Sigma the covariance of one item's gradient; g_i is the mean gradient of the n_i
    items of micro-batch i (of m), n = sum n_i; g that of the window's N items (all ranks'). Then

        small = sum_i n_i |g_i|² / n,   E small = |G|² + tr(Sigma) / b,   b = n / m
        big   = |g|²,                   E big   = |G|² + tr(Sigma) / N

        |G|²      = (N big - b small) / (N - b)
        tr(Sigma) = (small - big) / (1 / b - 1 / N)

    without bias, also where micro-batches are uneven. Both are averaged over windows, the latest weighing most
    (``decay``, for each window looked at), and their ratio is told with its 95 % interval; until 8 windows were seen,
    or while |G|² can't be told from 0, ``estimate()`` says so instead. Items that come together (the tokens of a text)
    count as the loss counts them: the noise scale is of batches made up of such micro-batches.

    ``loss``: of this loss alone, kept apart by ``separate=True``; None: of all together, which then have to be counted
    alike. ``every``: every n-th window is looked at.
    On several ranks a micro-batch in which gradients are shared is seen together with the other ranks'; with
    ``sync="last"`` the last one of a window can't be told apart and is left out. FSDP2 needs ``sync="every"``.
    Gradients that are summed up in 16 bits lose the differences: ``accumulate_dtype=torch.float32``.

    Cost of a window looked at: each micro-batch reads the gradients twice, and reads and writes a copy of them twice;
    two waits for the device, and a sum of a few numbers over the ranks. Memory: one copy of the gradients, from a
    window's first to its last micro-batch.
    Raises: UsageError for losses that are counted differently, and where a micro-batch has two calls of ``backward``.
    Source: McCandlish, Kaplan, Amodei et al. 2018, An Empirical Model of Large-Batch Training (arXiv:1812.06162),
    appendix A.1; ``small`` is weighted by items here, which for m micro-batches is their sample variance.

    >>> noise = GradientNoiseScale()
    >>> print(noise.estimate())
    gradient noise scale: not known (0 of 8 windows seen)
    """

    def __init__(self, loss: str | None = None, *, decay: float = 0.99, every: int = 1) -> None:
        if not isinstance(decay, (int, float)) or not 0 < decay <= 1:
            raise UsageError(f"decay is {decay!r}: it is a number above 0, up to 1 (all windows weigh the same)")
        self._loss = loss
        self._turns = Turns(every)
        self._ratio = RatioOfMeans(float(decay))
        self._batch = 0.0
        self._why_not = ""
        self._window: weakref.ref[Any] | None = None
        self._begin(False)

    def _begin(self, looking: bool) -> None:
        self._looking = looking
        self._step, self._items = -1, 0.0
        self._before: list[Tensor | None] = []
        self._seen: list[tuple[float, Tensor | None]] = []  # items, |their summed gradient|²

    # -- what happens ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def micro_batch(self, gradients: Gradients) -> None:
        if self._window is None or self._window() is not gradients.window or gradients.step < self._step:
            self._window = weakref.ref(gradients.window)
            self._begin(self._turns.take())
        if self._looking and not gradients.to_sum:
            self._looking, self._why_not = False, _COUPLED
        if not self._looking:
            return
        if gradients.step == self._step:
            raise UsageError(
                "GradientNoiseScale saw two calls of backward in one micro-batch, whose gradients it can't put "
                "together: hand the losses over in one, as in acc.backward({'ce': ce, 'aux': aux}, reduction='sum')"
            )
        items, to_sum = self._counted(gradients)
        come = self._loss is None or self._loss in gradients.by_loss
        now: list[Tensor | None] = gradients.of(self._loss) if come else [None for _ in gradients.named]
        hidden = all(one is None for one in now)
        apart = gradients.shared_always or not gradients.shared  # from what stood there before
        seen = self._square(now) * to_sum**2 if apart and not hidden else None
        self._seen.append((items - self._items, seen))
        if hidden and items > self._items:
            self._why_not = _SHARDED
        self._before = [] if gradients.step == gradients.window.steps - 1 else _copied(now, self._before)
        self._step, self._items = gradients.step, items

    def _square(self, now: list[Tensor | None]) -> Tensor:
        """Of what the micro-batch added; it uses the copy up."""
        differences = []
        for at, one in enumerate(now):
            before = self._before[at] if self._before else None
            if one is not None:
                differences.append(one if before is None else before.sub_(one))
        return squares(differences).sum()

    def _counted(self, gradients: Gradients) -> tuple[float, float]:
        names = [self._loss] if self._loss is not None else list(gradients.to_sum)
        known = {(gradients.items[name], gradients.to_sum[name]) for name in names if name in gradients.to_sum}
        if len(known) > 1:
            raise UsageError(
                f"the losses {', '.join(names)} are divided by different numbers of items, so there is no noise scale "
                "of them together: say GradientNoiseScale(loss=...), with separate=True to GradientAccumulator"
            )
        return next(iter(known), (0.0, 0.0))

    @torch.no_grad()
    def summed(self, gradients: Gradients) -> None:
        if self._looking:
            by = gradients.scale**2 if gradients.by_loss else 1.0
            big = float(squares([one for one in gradients.of(self._loss) if one is not None]).sum()) / by
            self._add(big, *self._over_ranks(gradients))
        self._begin(False)
        self._window = None

    def _over_ranks(self, gradients: Gradients) -> tuple[float, float, float, float]:
        """The sum of n_i |g_i|², n, m, and N."""
        counts = torch.tensor([items for items, _ in self._seen], dtype=torch.float64)
        if gradients.shared_always:
            gradients.ranks.sum_([counts], "counting items for the noise scale")  # each was seen with the other ranks'
            return self._weighted(counts)
        here = torch.tensor(self._weighted(counts), dtype=torch.float64)
        gradients.ranks.sum_([here], "adding the noise scale up")
        weighted, items, seen, total = here.tolist()
        return weighted, items, seen, total

    def _weighted(self, counts: Tensor) -> tuple[float, float, float, float]:
        known = [
            (items, square)
            for items, (_, square) in zip(counts.tolist(), self._seen, strict=True)
            if square is not None and items
        ]
        found = torch.stack([square for _, square in known]).tolist() if known else []
        weighted = sum(square / items for (items, _), square in zip(known, found, strict=True))
        return weighted, sum(items for items, _ in known), float(len(known)), float(counts.sum())

    def _add(self, big: float, weighted: float, items: float, seen: float, total: float) -> None:
        self._batch = total
        b = items / seen if seen else total
        if not total - b > 1e-9 * total:
            self._why_not = self._why_not or _ONE_EACH
            return
        small = weighted / items
        if not math.isfinite(small + big):
            return
        self._ratio.add((small - big) / (1 / b - 1 / total), (total * big - b * small) / (total - b))

    # -- what is told ------------------------------------------------------------------------------------------------

    def estimate(self) -> NoiseScale:
        """What is known so far."""
        ratio, interval = self._ratio, None
        if not ratio.count and self._why_not:
            why_not = self._why_not
        elif ratio.count < _LEAST:
            why_not = f"{ratio.count} of {_LEAST} windows seen"
        elif (interval := ratio.interval()) is None:
            why_not = f"not enough windows: after {ratio.count} of them the gradient can't be told from noise"
        elif interval[1] <= 0:
            interval, why_not = None, "no noise: the micro-batches' gradients agree better than by chance"
        else:
            why_not = ""
        low, high = (max(0.0, interval[0]), interval[1]) if interval else (0.0, float("inf"))
        scale = max(0.0, ratio.x / ratio.y) if interval else None
        return NoiseScale(scale, low, high, ratio.y, ratio.x, ratio.count, self._batch, why_not)

    def curves(self) -> Mapping[str, float]:
        found = self.estimate()
        if found.noise_scale is None:
            return {}
        return {"noise_scale/items": found.noise_scale, "noise_scale/low": found.low, "noise_scale/high": found.high}

    def state_dict(self) -> dict[str, Any]:
        return {"ratio": self._ratio.state_dict(), "batch": self._batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._ratio.load_state_dict(dict(state["ratio"]))
        self._batch = state["batch"]


def _copied(tensors: list[Tensor | None], into: list[Tensor | None]) -> list[Tensor | None]:
    """Copies, in the memory of those of the micro-batch before, where there are any."""
    into = into or [None] * len(tensors)
    return [
        None if one is None else one.clone() if room is None else room.copy_(one)
        for one, room in zip(tensors, into, strict=True)
    ]
