"""Any pair of functions: the value of the hard one, the gradient of the soft one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient
from gradwright.functions.flow.scale import passed_on
from gradwright.functions.surrogate import surrogate

__all__ = ["StraightThrough", "straight_through"]

REASON = "straight-through estimator: the value of one function, the gradient of another (Bengio et al. 2013)"


@surrogate(reason=REASON)
@custom_gradient
def _straight(hard: Tensor, soft: Tensor) -> Tensor:
    return passed_on(hard) if hard.dtype is soft.dtype else hard.to(soft.dtype)


@_straight.backward
def _to_soft(grad_output: Tensor) -> tuple[None, Tensor]:
    return None, grad_output


@surrogate(reason=REASON)
def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The value of ``hard``, bit for bit; the gradient goes to ``soft`` as it arrives, none to ``hard``.

    Not a derivative. ȳ ↦ (0, ȳ); forward mode: the tangent of ``soft``. The usual ``soft + (hard - soft).detach()``
    rounds, and is NaN where ``soft`` is infinite; this is neither.

    Shapes: both the same. Dtype: that of ``soft``, floating or complex; ``hard`` may be of any other and is converted.
    Where the dtypes are the same the result is a view of ``hard``. Cost: one node, nothing saved.
    Raises: UsageError for two shapes or devices, or a ``soft`` that can have no gradient; RuntimeError, by torch, if
    the result is changed in place while it is a view.
    Source: Bengio et al. 2013, section 4.

    >>> x = torch.tensor([0.2, 0.7], requires_grad=True)
    >>> y = straight_through(x > 0.5, x.sigmoid())
    >>> y.sum().backward()
    >>> y.tolist(), bool(torch.allclose(x.grad, x.sigmoid() * (1 - x.sigmoid())))
    ([0.0, 1.0], True)
    """
    if hard.shape != soft.shape or hard.device != soft.device or not (soft.is_floating_point() or soft.is_complex()):
        raise UsageError(
            f"straight_through of hard {_told(hard)} and soft {_told(soft)}\n"
            "  why    the gradient of the result, which has the value of hard, is that of soft\n"
            "  do     give both the same shape and device, and soft a floating-point dtype"
        )
    if hard.is_complex() and not soft.is_complex():
        raise UsageError("straight_through of a complex hard and a real soft: the imaginary part would be lost")
    result: Tensor = _straight(hard, soft)
    return result


def _told(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"


@surrogate(reason=REASON)
class StraightThrough(nn.Module):
    """``hard(x)`` with the gradient of ``soft(x)``, for any two functions or modules of the same arguments.

    ``hard`` is run without gradients. Cost: both.

    >>> step = StraightThrough(lambda x: x > 0, torch.sigmoid)
    >>> x = torch.zeros(1, requires_grad=True)
    >>> step(x).sum().backward()
    >>> x.grad
    tensor([0.2500])
    """

    def __init__(self, hard: Callable[..., Tensor], soft: Callable[..., Tensor]) -> None:
        super().__init__()
        self.hard, self.soft = hard, soft

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        with torch.no_grad():
            hard = self.hard(*args, **kwargs)
        return straight_through(hard, self.soft(*args, **kwargs))
