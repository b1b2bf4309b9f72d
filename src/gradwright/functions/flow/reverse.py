"""Gradient reversal: what follows is trained to do something, what precedes is trained to make it impossible.

Source: Ganin, Lempitsky 2015, Unsupervised Domain Adaptation by Backpropagation (ICML, arXiv 1409.7495), equations 7
and 8: R(x) = x and dR/dx = -λ I, "two incompatible equations": it is not the derivative of anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.scale import scale_gradient
from gradwright.functions.surrogate import surrogate

__all__ = ["ReverseGradient", "reversal_schedule", "reverse_gradient"]

REASON = "gradient reversal: the cotangent is multiplied by -scale, on purpose (Ganin, Lempitsky 2015)"


@surrogate(reason=REASON)
def reverse_gradient(x: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """``x``; its gradient is ``-scale`` times what arrives. Not a derivative.

    ȳ ↦ -λ ȳ with λ = ``scale`` (equations 7 and 8). Forward mode: the transposed map, tangents are reversed too.

    ``scale``: a number that is not negative, or a tensor that broadcasts to ``x``.
    Shapes: any, the result that of ``x``, of which it is a view. Dtype, device: those of ``x``. Cost: one node.
    Raises: UsageError for a negative number; RuntimeError, by torch, if the result or ``x`` is changed in place.
    Source: Ganin, Lempitsky 2015, equations 7 and 8.

    >>> x = torch.ones(2, requires_grad=True)
    >>> reverse_gradient(x, 0.5).sum().backward()
    >>> x.grad.tolist()
    [-0.5, -0.5]
    """
    if not isinstance(scale, Tensor) and scale < 0:
        raise UsageError(
            f"reverse_gradient with a scale of {scale} does not reverse: it is multiplied by -scale.\n"
            "  do     give a scale that is not negative, or use scale_gradient"
        )
    return scale_gradient(x, -scale)


def reversal_schedule(progress: float, steepness: float = 10.0) -> float:
    """λ = 2 / (1 + exp(-steepness · progress)) - 1: from 0 at the start (``progress`` 0) to almost 1 at the end (1).

    Source: Ganin, Lempitsky 2015, section 4, where γ = 10: the domain classifier is noise at first.

    >>> reversal_schedule(0.0), round(reversal_schedule(0.5), 4), round(reversal_schedule(1.0), 4)
    (0.0, 0.9866, 0.9999)
    """
    return 2 / (1 + math.exp(-steepness * progress)) - 1


@surrogate(reason=REASON)
class ReverseGradient(nn.Module):
    """``reverse_gradient`` as a layer, with a fixed scale or one that follows a schedule.

    With ``steps``, λ = ``scale`` · ``schedule``(k / steps) after k calls of ``step()``, which belongs behind the
    optimizer's; after ``steps`` calls it stays. k is in the ``state_dict``. ``current`` is λ: a buffer in float32 (or
    the dtype the module is cast to), so that compiled and captured graphs see it change without a recompilation.

    Raises: UsageError for a negative scale, ``steps`` below 1, a schedule without steps, ``step()`` without steps.

    >>> reverse = ReverseGradient(steps=100)
    >>> float(reverse.current)
    0.0
    >>> for _ in range(50):
    ...     reverse.step()
    >>> round(float(reverse.current), 4)
    0.9866
    """

    count: Tensor
    current: Tensor | float

    def __init__(
        self, scale: float = 1.0, *, steps: int | None = None, schedule: Callable[[float], float] | None = None
    ) -> None:
        super().__init__()
        if scale < 0:
            raise UsageError(f"ReverseGradient with a scale of {scale} does not reverse: use ScaleGradient")
        if steps is None and schedule is not None:
            raise UsageError("a schedule needs to know its end: ReverseGradient(steps=..., schedule=...)")
        if steps is not None and steps < 1:
            raise UsageError(f"ReverseGradient(steps={steps}): a schedule has at least one step")
        self.scale, self.steps, self.schedule = scale, steps, schedule or reversal_schedule
        self.taken = 0
        if steps is None:
            self.current = scale
        else:
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("current", torch.tensor(scale * self.schedule(0.0)), persistent=False)
            self.register_load_state_dict_post_hook(_resume)  # type: ignore[no-untyped-call]  # torch has no types here

    def forward(self, x: Tensor) -> Tensor:
        return reverse_gradient(x, self.current)

    def step(self) -> None:
        """Take the schedule one step further."""
        if self.steps is None:
            raise UsageError("this ReverseGradient has a fixed scale: give it steps to have a schedule")
        self._go_to(self.taken + 1)

    def _go_to(self, taken: int) -> None:
        assert self.steps is not None and isinstance(self.current, Tensor)
        self.taken = taken  # and not read from the buffer, which may be on a GPU
        self.count.fill_(taken)
        self.current.fill_(self.scale * self.schedule(min(taken / self.steps, 1.0)))

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}" + ("" if self.steps is None else f", steps={self.steps}")


def _resume(module: ReverseGradient, _: object) -> None:
    """After ``load_state_dict``: the scale that belongs to the count."""
    module._go_to(int(module.count))
