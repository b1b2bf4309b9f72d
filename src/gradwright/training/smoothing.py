"""Smoothing of noisy gradients: an exponential moving average over updates, after the sum and before the clip."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.products import local


class GradientEMA:
    """An exponential moving average of the windows' gradients, in place of them or added to them.

    ::

        acc = GradientAccumulator(model, optimizer, accumulation_steps=8, smoothing=GradientEMA(0.98, lamb=2.0), ...)

    Notation: g_t is the gradient of window t (summed up, unscaled), t = 1, 2, ...; a is ``decay``.

    Without ``lamb``, the optimizer gets the mean of past gradients, with the weights of t steps corrected to one:

        m_t = a m_{t-1} + (1 - a) g_t,      m_0 = 0,            g_t becomes m_t / (1 - a^t)

    With ``lamb``, what changes slowly is amplified (Grokfast-EMA):

        m_t = a m_{t-1} + (1 - a) g_t,      m_1 = g_1,          g_t becomes g_t + lamb m_t

    A parameter without a gradient keeps its mean, and is not counted. A window that is left out (NaN, no items) leaves
    all means as they are. Sharded parameters (FSDP2) are smoothed shard by shard.

    Cost: reads the gradients and the means once, writes them once. Memory: the gradients once more, in float32 at
    least. Shapes, dtypes: those of the gradients.
    Raises: UsageError for a ``decay`` outside of [0, 1), or a ``lamb`` that is no number.
    Source: bias correction: Kingma and Ba, Adam, 2014, section 3. ``lamb``: Lee, Kang, Kim and Lee, Grokfast, 2024
    (arXiv:2405.20233), algorithm 2, begun with the first gradient as in the authors' code (alpha 0.98, lamb 2).

    >>> w = torch.zeros(1, requires_grad=True)
    >>> ema = GradientEMA(0.5)
    >>> for gradient in (1.0, 4.0):
    ...     w.grad = torch.tensor([gradient])
    ...     ema.smooth([w])
    >>> w.grad  # (0.25 · 1 + 0.5 · 4) / 0.75
    tensor([3.])
    """

    def __init__(self, decay: float, *, lamb: float | None = None) -> None:
        if not isinstance(decay, (int, float)) or not 0 <= decay < 1:
            raise UsageError(f"decay is {decay!r}: it is a number from 0 (no smoothing) to below 1")
        if lamb is not None and (not isinstance(lamb, (int, float)) or not abs(lamb) < float("inf")):
            raise UsageError(
                f"lamb is {lamb!r}: it is a number, by which the mean is added; or None, for the mean alone"
            )
        self.decay, self.lamb = float(decay), lamb
        self._parameters: list[Tensor] = []
        self._means: list[Tensor | None] = []
        self._updates: list[int] = []

    @torch.no_grad()
    def smooth(self, parameters: Sequence[Tensor]) -> None:
        """Changes ``.grad`` of the parameters, in place. Those that come anew (layers that were unfrozen) begin a mean
        of their own."""
        self._follow(parameters)
        for at, parameter in enumerate(parameters):
            gradient = parameter.grad
            if gradient is None:
                continue
            mean = self._means[at]
            if mean is None:
                mean = self._means[at] = torch.zeros_like(gradient, dtype=_wide(gradient.dtype))
            self._updates[at] += 1
            self._one(local(gradient), local(mean), self._updates[at])

    def _follow(self, parameters: Sequence[Tensor]) -> None:
        """The means in the order of these parameters."""
        if len(parameters) == len(self._parameters) and all(map(operator.is_, parameters, self._parameters)):
            return
        if self._means and not self._parameters and len(self._means) != len(parameters):  # of a checkpoint
            raise UsageError(
                f"a GradientEMA was loaded with the means of {len(self._means)} parameters, and is given "
                f"{len(parameters)}: a checkpoint goes with its model, and with which of its layers are frozen"
            )
        if self._parameters or not self._means:
            known = {id(one): at for at, one in enumerate(self._parameters)}
            places = [known.get(id(one)) for one in parameters]
            if known and all(at is None for at in places):
                raise UsageError(
                    f"a GradientEMA holds the means of {len(known)} parameters, and is given {len(parameters)} others: "
                    "each accumulator needs one of its own"
                )
            self._means = [None if at is None else self._means[at] for at in places]
            self._updates = [0 if at is None else self._updates[at] for at in places]
        self._parameters = list(parameters)

    def _one(self, gradient: Tensor, mean: Tensor, update: int) -> None:
        g = gradient.to(mean.dtype)
        if self.lamb is None:
            mean.lerp_(g, 1 - self.decay)
            gradient.copy_(mean / (1 - self.decay**update))
            return
        mean.lerp_(g, 1.0 if update == 1 else 1 - self.decay)
        gradient.copy_(g.add(mean, alpha=self.lamb))

    def state_dict(self) -> dict[str, Any]:
        """The means, in the order of the parameters, and how many updates each was made of."""
        return {"means": list(self._means), "updates": list(self._updates)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What ``state_dict`` gave; the means are copied."""
        self._means = [None if mean is None else mean.detach().clone() for mean in state["means"]]
        self._updates = list(state["updates"])
        self._parameters = []


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
