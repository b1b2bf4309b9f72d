"""Where the gradients of a window are to be summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.engines import Engine
from gradwright.training.gradients.buffers import Buffers
from gradwright.training.gradients.store import InPlace, Store
from gradwright.training.several import Aggregation, Aggregator


def store_of(
    parameters: Sequence[Tensor],
    engine: Engine,
    *,
    dtype: torch.dtype | None,
    separate: bool,
    order: Sequence[str],
    aggregator: Aggregator | None,
    scale: Callable[[], float],
) -> Store:
    """In ``.grad``, where one sum in the parameters' own type is wanted; else in buffers.

    ``order``: of the losses before the aggregator. ``scale``: the gradient scaler's. Raises: UsageError.
    """
    apart = separate or aggregator is not None
    if dtype is None and not apart:
        return InPlace(parameters)
    if dtype is not None and not engine.sums_outside:
        raise UsageError(
            "a sharded model sums its gradients up inside: say MixedPrecisionPolicy(reduce_dtype=...) to "
            "fully_shard instead of accumulate_dtype="
        )
    return Buffers(
        parameters,
        dtype=dtype,
        apart=apart,
        ranks=engine.ranks if engine.sums_outside else None,
        order=order,
        join=None if aggregator is None else Aggregation(aggregator, engine.ranks),
        scale=scale,
    )
