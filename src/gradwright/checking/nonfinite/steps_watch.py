"""What an optimizer's step leaves behind: parameters that are not finite, though all gradients were."""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from gradwright.checking.nonfinite.frames import Label, user_frame
from gradwright.checking.nonfinite.looks import all_finite, first_entry, value_at, word
from gradwright.checking.nonfinite.operations_watch import place_in
from gradwright.checking.nonfinite.origins import Ledger, NonfiniteBegin, Origin


def look_at_step(optimizer: Optimizer, ledger: Ledger, backward_calls: int, frame: FrameType) -> None:
    """Put what it made into the ledger: it is told when the next loss shows it."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None or all_finite(parameter):
                continue
            if ledger.exactly(parameter) is None and all_finite(gradient):
                ledger.mark(parameter, _updated(optimizer, group, parameter, gradient, backward_calls, frame))


def _updated(
    optimizer: Optimizer,
    group: dict[str, Any],
    parameter: Tensor,
    gradients: Tensor,
    backward_calls: int,
    frame: FrameType,
) -> Origin:
    name = f"{type(optimizer).__name__}.step"
    users = user_frame(frame)
    label = None if users is None else Label(name, users.f_code, users.f_lasti)
    entry = first_entry(parameter)
    value = value_at(parameter, entry, parameter.shape)
    gradient = value_at(gradients, entry, parameter.shape)
    rate = group.get("lr")
    settings = f" (lr={float(rate):g})" if isinstance(rate, (int, float)) else ""
    begin = NonfiniteBegin(
        operation=name,
        phase="optimizer step",
        place=place_in(label),
        kind="update",
        value="nan" if value is None else word(value),
        entry=entry,
        shape=tuple(parameter.shape),
        why=f"All gradients are finite, and the update{settings} of this parameter is not",
        operands=(("gradient", gradient),) if gradient is not None else (),
        hints=("a smaller learning rate, gradient clipping; an eps that is not 0 in the dtype of the parameters",),
        backward_call=backward_calls,
    )
    return Origin(begin, label)
