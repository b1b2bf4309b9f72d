"""What a loss as a module is."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from gradwright.losses.common.plans import LossPlan, planning

# How the loss of a batch comes from its elements. "additive": a sum of one number for each, over a count that can be
# known beforehand (num_items): any cut of the batch gives the same. "statistics": a function of a few sums over the
# batch. "batch": each element meets every other.
Coupling = Literal["additive", "statistics", "batch"]


class Loss(nn.Module):
    """A loss: called as its function is, with the options it was made with.

    ``coupling``: what a cut of the batch into micro-batches would change.
    """

    coupling: ClassVar[Coupling]

    def plan(self, *args: Any, **kwargs: Any) -> LossPlan:
        """How a call with these arguments is computed: each launch of the value and its gradients, its back end, and
        why it is no kernel, where it is none.

        What arrives at the loss in the backward is taken to be what arrived the last time: a loss whose value and
        gradients are one pass takes one more for the gradients where that changes from call to call.

        Cost: that of the call, and its kernels' compilation, if there are none yet. Nothing is changed.
        """
        with planning() as (steps, also):
            value: Tensor = self(*args, **kwargs)
            del value
        return LossPlan(tuple(steps), tuple(also))

    def extra_repr(self) -> str:
        return ", ".join(
            f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_") and name != "training"
        )
