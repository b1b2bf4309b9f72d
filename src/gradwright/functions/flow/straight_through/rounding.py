"""Rounding and signs, with a gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient
from gradwright.functions.surrogate import surrogate

__all__ = ["RoundThrough", "SignThrough", "round_through", "sign_through"]

ROUND = "straight-through estimator: rounds, and its gradient is that of the identity (Bengio et al. 2013)"
SIGN = "straight-through estimator: a sign, with the gradient of a line from -1 to 1 (Hubara et al. 2016)"


@surrogate(reason=ROUND)
@custom_gradient
def _rounded(x: Tensor) -> Tensor:
    return x.round()


@_rounded.backward
def _as_it_comes(grad_output: Tensor) -> Tensor:
    return grad_output


@surrogate(reason=ROUND)
def round_through(x: Tensor) -> Tensor:
    """``x`` rounded to the nearest integer, halves to the even one; the gradient as it arrives. Not a derivative.

    ȳ ↦ ȳ, where the derivative is zero. Forward mode: tangents as they come.
    Shapes: any, the result that of ``x``. Dtype: real floating-point, kept. Cost: one pass, nothing saved.
    Raises: UsageError for another dtype.
    Source: Bengio et al. 2013, section 4; for weights: Jacob et al. 2018, Quantization and Training of Neural Networks
    for Efficient Integer-Arithmetic-Only Inference, section 3.

    >>> x = torch.tensor([0.4, 1.6], requires_grad=True)
    >>> y = round_through(x)
    >>> (y * y).sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.0, 2.0], [0.0, 4.0])
    """
    require_real(x, "round_through")
    result: Tensor = _rounded(x)
    return result


@surrogate(reason=SIGN)
@custom_gradient
def _signed(x: Tensor, saturate: float | None) -> Tensor:
    one = x.new_ones(())
    return torch.where(x < 0, -one, torch.where(x >= 0, one, x))  # NaN stays NaN


@_signed.backward
def _between(grad_output: Tensor, x: Tensor, saturate: float | None) -> Tensor:
    # not grad_output * mask: 0 · inf would be NaN
    return grad_output if saturate is None else torch.where(x.abs() <= saturate, grad_output, 0)


@surrogate(reason=SIGN)
def sign_through(x: Tensor, saturate: float | None = 1.0) -> Tensor:
    """+1 where ``x`` >= 0, -1 below; the gradient as it arrives where |x| <= ``saturate``, 0 outside. Not a derivative.

    ȳ ↦ ȳ · 1(|x| <= saturate), which is the derivative of the line from -1 to 1 that a sign is taken for (hard tanh).
    ``saturate=None`` lets gradients through everywhere: entries far out then go on growing without any effect.
    0 has the sign +1 (in ``torch.sign`` it has 0), NaN stays NaN. Forward mode: the same mask.
    Shapes: any, the result that of ``x``. Dtype: real floating-point, kept. Cost: one pass; saves ``x``.
    Raises: UsageError for another dtype, or a ``saturate`` that isn't positive.
    Source: Hubara, Courbariaux et al. 2016, Binarized Neural Networks (arXiv 1602.02830), equations 1 and 4.

    >>> x = torch.tensor([-2.0, -0.5, 0.0, 0.5], requires_grad=True)
    >>> y = sign_through(x)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([-1.0, -1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0])
    """
    require_real(x, "sign_through")
    _require_positive(saturate)
    result: Tensor = _signed(x, saturate)
    return result


def require_real(x: Tensor, name: str) -> None:
    """Raises: UsageError for integers, bools and complex numbers."""
    if not x.is_floating_point():
        raise UsageError(
            f"{name} of a tensor of {str(x.dtype).removeprefix('torch.')}\n"
            "  do     give it a real floating-point tensor: others have no gradient, or no order"
        )


def _require_positive(saturate: float | None) -> None:
    if saturate is not None and not saturate > 0:
        raise UsageError(f"sign_through(saturate={saturate}): give a positive number, or None for none")


@surrogate(reason=ROUND)
class RoundThrough(nn.Module):
    """``round_through`` as a layer.

    >>> RoundThrough()
    RoundThrough()
    """

    def forward(self, x: Tensor) -> Tensor:
        return round_through(x)


@surrogate(reason=SIGN)
class SignThrough(nn.Module):
    """``sign_through`` as a layer.

    >>> SignThrough(saturate=None)
    SignThrough(saturate=None)
    """

    def __init__(self, saturate: float | None = 1.0) -> None:
        super().__init__()
        _require_positive(saturate)
        self.saturate = saturate

    def forward(self, x: Tensor) -> Tensor:
        return sign_through(x, self.saturate)

    def extra_repr(self) -> str:
        return f"saturate={self.saturate}"
