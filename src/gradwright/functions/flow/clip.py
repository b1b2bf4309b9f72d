"""Change nothing on the way forward, keep the cotangent small on the way back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient
from gradwright.functions.flow.scale import passed_on
from gradwright.functions.surrogate import surrogate

__all__ = ["ClipGradient", "clip_gradient"]

REASON = "the identity whose cotangent is clipped, on purpose (Pascanu et al. 2013)"

Axes = int | tuple[int, ...] | None


@surrogate(reason=REASON)
@custom_gradient
def _clipped_by_value(x: Tensor, value: float) -> Tensor:
    return passed_on(x)


@_clipped_by_value.backward
def _within(grad_output: Tensor, value: float) -> Tensor:
    return grad_output.clamp(-value, value)


@_clipped_by_value.jvp
def _no_tangent_by_value(tangents: Tensor) -> Tensor:
    raise _not_linear()


@surrogate(reason=REASON)
@custom_gradient
def _clipped_by_norm(x: Tensor, norm: float, dim: Axes) -> Tensor:
    return passed_on(x)


@_clipped_by_norm.backward
def _shortened(grad_output: Tensor, norm: float, dim: Axes) -> Tensor:
    """ȳ · min(1, norm / |ȳ|), with the largest entry taken out first: |ȳ|² overflows long before ȳ does, in an
    exploding gradient, which is what clipping is for."""
    if not grad_output.numel():
        return grad_output
    half = grad_output.dtype in (torch.float16, torch.bfloat16)
    wide = grad_output.float() if half else grad_output
    largest = torch.linalg.vector_norm(wide.detach(), torch.inf, dim, keepdim=True)  # any number gives the same result
    some = largest > 0
    peak = torch.where(some, largest, 1)
    unit = wide / peak
    length = torch.where(some, torch.linalg.vector_norm(unit, dim=dim, keepdim=True), 1)
    clipped = torch.where(some & (peak > norm / length), unit * (norm / length), wide)
    return clipped.to(grad_output.dtype)


@_clipped_by_norm.jvp
def _no_tangent_by_norm(tangents: Tensor) -> Tensor:
    raise _not_linear()


def _not_linear() -> NotImplementedError:
    return NotImplementedError(
        "clip_gradient has no forward mode.\n"
        "  why    clipping is not linear in the cotangent, so there is no map of tangents that it is the transpose of\n"
        "  do     use reverse mode (torch.func.jacrev), or leave the clipping out"
    )


@surrogate(reason=REASON)
def clip_gradient(x: Tensor, value: float | None = None, norm: float | None = None, dim: Axes = None) -> Tensor:
    """``x``; its gradient is what arrives, clipped. Not a derivative, and not linear in the cotangent.

    ``value``: each entry is brought to [-value, value]. ``norm``: ȳ ↦ ȳ · min(1, norm / |ȳ|), |ȳ| the Euclidean length
    over ``dim`` (an axis or a tuple of them), or of the whole tensor. What isn't finite is not hidden: by value NaN
    stays NaN, by norm a cotangent with inf or NaN stays as it is. Under vmap, ``dim=None`` is the whole of one sample.

    Shapes: any, the result that of ``x``, of which it is a view. Dtype, device: those of ``x``; lengths of half
    precision are taken in float32. Cost: one node, nothing saved; by norm three passes over the cotangent.
    Raises: UsageError, unless one of the two is given and positive; for ``value`` and complex numbers, which have no
    order; NotImplementedError in forward mode; RuntimeError, by torch, if the result or ``x`` is changed in place.
    Source: Pascanu, Mikolov, Bengio 2013, On the difficulty of training recurrent neural networks (ICML), algorithm 1,
    there for all parameters at once; of the cotangents inside a network, by value: Graves 2013, Generating Sequences
    With Recurrent Neural Networks (arXiv 1308.0850), section 2.1.

    >>> x = torch.zeros(2, requires_grad=True)
    >>> (clip_gradient(x, norm=1.0) * torch.tensor([3.0, 4.0])).sum().backward()
    >>> [round(entry, 4) for entry in x.grad.tolist()]
    [0.6, 0.8]
    """
    _require_one(value, norm, dim)
    if norm is not None:
        result: Tensor = _clipped_by_norm(x, norm, dim)
    elif x.is_complex():
        raise UsageError("clip_gradient by value of a complex tensor: complex numbers have no order. Use norm=")
    else:
        result = _clipped_by_value(x, value)
    return result


def _require_one(value: float | None, norm: float | None, dim: Axes) -> None:
    given = value if norm is None else norm
    if (value is None) == (norm is None) or given is None or not given > 0 or (value is not None and dim is not None):
        raise UsageError(
            f"clip_gradient(value={value}, norm={norm}, dim={dim})\n"
            "  do     give a positive value, or a positive norm (and, if it isn't the whole tensor's, its dim)"
        )


@surrogate(reason=REASON)
class ClipGradient(nn.Module):
    """``clip_gradient`` as a layer.

    >>> ClipGradient(norm=1.0, dim=-1)
    ClipGradient(norm=1, dim=-1)
    """

    def __init__(self, value: float | None = None, norm: float | None = None, dim: Axes = None) -> None:
        super().__init__()
        _require_one(value, norm, dim)
        self.value, self.norm, self.dim = value, norm, dim

    def forward(self, x: Tensor) -> Tensor:
        return clip_gradient(x, self.value, self.norm, self.dim)

    def extra_repr(self) -> str:
        if self.norm is None:
            return f"value={self.value:g}"
        return f"norm={self.norm:g}" + ("" if self.dim is None else f", dim={self.dim}")
