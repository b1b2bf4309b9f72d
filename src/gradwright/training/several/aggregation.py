"""An aggregator of torchjd, or any function like one, makes one gradient of several losses' gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.ground.random_states import CPU, RandomState, accelerators_in_use, drawn_from
from gradwright.training.products import added, gram, is_sharded
from gradwright.training.ranks import Ranks
from gradwright.training.several.reach import ByLoss, Reach

Aggregator: TypeAlias = Callable[[Tensor], Tensor]  # [losses, elements] -> [elements]
Rows = list[list["Tensor | None"]]  # a loss, the parts of its gradient


class Aggregation:
    """The gradients of shared parameters by an aggregator, those of heads as they are.

    ``aggregator``: takes the matrix [losses, elements of all shared parameters] (zeros where a loss does not reach),
    gives [elements]. ``ranks``: all of them draw the same random numbers in it. A parameter that one loss alone reaches
    has nothing to be reconciled with, and keeps that loss's gradient.
    Gradients that are not finite are added up, without the aggregator, so that the window is found to be so.

    Cost, memory: the matrix. Of sharded gradients the Gramian alone is made, so the aggregator has to be one by weights
    of the Gramian (``gramian_weighting``, as most of torchjd's have: UPGrad, MGDA, PCGrad, ...).
    Raises: UsageError.
    Source: Quinton and Rey, Jacobian Descent, 2024 (arXiv:2406.16232); heads as in torchjd's ``mtl_backward``.
    """

    def __init__(self, aggregator: Aggregator, ranks: Ranks) -> None:
        if not callable(aggregator):
            raise UsageError(
                f"aggregator= is a function of a matrix [losses, elements] (torchjd.aggregation), not {aggregator!r}"
            )
        self._aggregator, self._ranks = aggregator, ranks

    @torch.no_grad()
    def __call__(self, by_loss: ByLoss, scale: float) -> list[Tensor | None]:
        """One gradient for each parameter; what comes in and what goes out is multiplied by ``scale``."""
        reach = Reach.of(by_loss)
        joined: list[Tensor | None] = [added(parts) for parts in zip(*by_loss.values(), strict=True)]
        if not reach.shared:
            return joined
        rows = [[gradients[at] for at in reach.shared] for gradients in by_loss.values()]
        way = self._by_weights if any(is_sharded(part) for row in rows for part in row) else self._by_matrix
        for at, gradient in zip(reach.shared, way(rows, scale) or (), strict=False):
            joined[at] = gradient
        return joined

    def _by_matrix(self, rows: Rows, scale: float) -> list[Tensor] | None:
        likes = [next(part for part in parts if part is not None) for parts in zip(*rows, strict=True)]
        dtype = _widest(likes)
        matrix = torch.stack(
            [
                torch.cat(
                    [
                        like.new_zeros(like.numel(), dtype=dtype) if part is None else part.reshape(-1).to(dtype)
                        for part, like in zip(row, likes, strict=True)
                    ]
                )
                for row in rows
            ]
        )
        if not bool(torch.isfinite(matrix).all()):
            return None
        with self._same_on_all_ranks():
            vector = self._aggregator(matrix.div_(scale) if scale != 1.0 else matrix)
        if not isinstance(vector, Tensor) or vector.shape != matrix.shape[1:]:
            shape = list(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
            raise UsageError(
                f"the aggregator made {shape} of a matrix {list(matrix.shape)}: it gives one gradient, "
                f"{list(matrix.shape[1:])}"
            )
        vector = vector * scale if scale != 1.0 else vector
        pieces = torch.split(vector, [like.numel() for like in likes])
        return [piece.view_as(like).to(like.dtype) for piece, like in zip(pieces, likes, strict=True)]

    def _by_weights(self, rows: Rows, scale: float) -> list[Tensor] | None:
        table = gram(rows)
        if not bool(torch.isfinite(table).all()):
            return None
        weighting: Any = getattr(self._aggregator, "gramian_weighting", None)
        if weighting is None:
            raise UsageError(
                f"{type(self._aggregator).__name__} looks at whole gradients, and a rank of a sharded model has a part "
                "of them: use an aggregator by weights of the Gramian (torchjd's UPGrad, MGDA, PCGrad, ...)"
            )
        with self._same_on_all_ranks():
            weights = weighting(table / scale**2).tolist()
        found = []
        for parts in zip(*rows, strict=True):
            total = added([part * weight for part, weight in zip(parts, weights, strict=True) if part is not None])
            assert total is not None
            found.append(total)
        return found

    @contextlib.contextmanager
    def _same_on_all_ranks(self) -> Iterator[None]:
        """Aggregators that draw (PCGrad's order, GradDrop's masks) draw the same everywhere: by rank 0's seed."""
        if self._ranks.alone or self._ranks.count == 1:
            yield
            return
        seed = int(torch.randint(2**31, ()))
        seeds = self._ranks.gather([seed], "drawing a seed for the aggregator")
        with drawn_from(RandomState.now([CPU, *accelerators_in_use()])):
            torch.manual_seed(int(seeds[0][0]))
            yield


def _widest(tensors: list[Tensor]) -> torch.dtype:
    dtype = tensors[0].dtype
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype
