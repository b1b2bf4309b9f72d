"""A criterion in the place of a loss: it takes outputs and targets, not a model and a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training.counting import Reduction

_ROOMS = ("torch.nn.functional", "torch._C._nn", "gradwright.losses")


def is_criterion(loss: Any) -> bool:
    """A module, or a function of torch's or of ours."""
    return isinstance(loss, nn.Module) or (getattr(loss, "__module__", None) or "").startswith(_ROOMS)


def criterion_reduction(loss: Any) -> Reduction:
    return "sum" if getattr(loss, "reduction", "mean") == "sum" else "mean"


def of_pair(loss: Callable[..., Any]) -> Callable[[nn.Module, Any], Any]:
    """As a function of a model and a batch (inputs, targets). Raises: UsageError for another batch."""

    def of_batch(model: nn.Module, batch: Any) -> Tensor:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise UsageError(
                f"a criterion is given (model(inputs), targets), and the batch is a {type(batch).__name__}, no pair. "
                "Write the loss as a function: loss(model, batch)"
            )
        value: Tensor = loss(model(batch[0]), batch[1])
        return value

    return of_batch
