"""Change nothing on the way forward, multiply the cotangent on the way back."""

from __future__ import annotations

from torch import Tensor, nn

from gradwright.functions.custom_gradient import custom_gradient
from gradwright.functions.surrogate import surrogate
from gradwright.ground.torch_versions.levels import forward_level

__all__ = ["ScaleGradient", "scale_gradient"]

REASON = "the identity whose cotangent is multiplied by a factor, on purpose"


def passed_on(x: Tensor) -> Tensor:
    """``x`` in the same memory; a copy inside ``forward_ad.dual_level``, where torch lets a view's tangent be nothing
    but a view of the tangent, and so not a multiple of it."""
    return x.clone() if forward_level() >= 0 else x.view_as(x)


@surrogate(reason=REASON)
@custom_gradient
def _scaled(x: Tensor, factor: float | Tensor) -> Tensor:
    return passed_on(x)


@_scaled.backward
def _multiplied(grad_output: Tensor, factor: float | Tensor) -> tuple[Tensor, None]:
    scaled = grad_output * factor
    return scaled if scaled.dtype is grad_output.dtype else scaled.to(grad_output.dtype), None


@surrogate(reason=REASON)
def scale_gradient(x: Tensor, factor: float | Tensor) -> Tensor:
    """``x``; its gradient is ``factor`` times what arrives. Not a derivative, unless the factor is 1.

    ȳ ↦ factor · ȳ. Forward mode: the transposed map, tangents are multiplied too. For parts of a network that are to
    learn slower or faster than the rest: an encoder with the number of heads behind it, a step that is unrolled.

    ``factor``: a number, or a tensor that broadcasts to ``x`` (a weight for every sample: [batch, 1]).
    Shapes: any, the result that of ``x``, of which it is a view. Dtype, device: those of ``x``.
    Cost: one node; nothing saved but a tensor ``factor``. A factor of 0 is no ``stop_gradient``: 0 · NaN is NaN.
    Raises: RuntimeError, by torch, if the result or ``x`` is changed in place: it is a view.
    Source: MuZero halves the gradient at each unrolled step so (Schrittwieser et al. 2020, Mastering Atari, Go, chess
    and shogi by planning with a learned model, arXiv 1911.08265, appendix G); a factor of -λ is ``reverse_gradient``.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> scale_gradient(x, 0.5).sum().backward()
    >>> x.grad.tolist()
    [0.5, 0.5]
    """
    result: Tensor = _scaled(x, factor)
    return result


@surrogate(reason=REASON)
class ScaleGradient(nn.Module):
    """``scale_gradient`` as a layer.

    >>> ScaleGradient(0.1)
    ScaleGradient(factor=0.1)
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return scale_gradient(x, self.factor)

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}"
