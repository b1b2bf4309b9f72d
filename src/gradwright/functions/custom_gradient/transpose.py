r"""Forward mode out of a backward.

A vjp ū ↦ Jᵀū is linear, and the jvp is its transpose: with tangents t of the inputs,

    J t = ∂/∂ū <Jᵀū, t>,

one vjp of the vjp, exact, and the same at every ū (Townsend, "A new trick for calculating Jacobian vector products",
2017; for complex numbers both are taken as pairs of reals). A backward that is not linear in its cotangent (one that
clips it) has no transpose: what comes out would depend on ū. So the rule is asked at two cotangents, of size 1 and of
size 1e8, which have to agree, and at the first one Euler's <Jᵀū, t> = <ū, J t> has to hold, which a backward that is
blind to autograd (NumPy, ``detach``) fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.levels import differ, holds_anywhere, tolerance
from gradwright.functions.custom_gradient.returned import Meta

# Cotangents in, one gradient (or None) per input out.
Pull = Callable[[Sequence[Tensor]], Sequence[Tensor | None]]


class NotLinear(Exception):
    """The vjp has no transpose; the message says why."""


def transposed(pull: Pull, outs: Sequence[Meta], tangents: Sequence[Tensor | None]) -> list[Tensor]:
    """J t. ``outs``: the outputs, all of them differentiable.  Cost: 2 vjps, each with its derivative.

    Raises: NotLinear; what ``pull`` raises.
    """
    here, pulled = _derivative(pull, [_noise(meta, 1, 1.0) for meta in outs], tangents)
    far = [_noise(meta, 2, 1e3 if meta.dtype is torch.float16 else 1e8) for meta in outs]
    there, _ = _derivative(pull, far, tangents)
    for near, away in zip(here, there, strict=True):
        if near.numel() and holds_anywhere(differ(near, away)):
            raise NotLinear("it is not linear in its cotangent: its derivative changes with it")
    if holds_anywhere(pulled):
        raise NotLinear("autograd does not see all that it does with its cotangent")
    return here


def _derivative(
    pull: Pull, cotangents: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> tuple[list[Tensor], Tensor]:
    """∂/∂ū <pull(ū), t>, and whether Euler's equation fails at ū."""
    used: list[Tensor] = []

    def gradients(*given: Tensor) -> tuple[Tensor, ...]:
        both = [(g, t) for g, t in zip(pull(given), tangents, strict=True) if g is not None and t is not None]
        if not both:  # every gradient is None: a zero that torch.func can differentiate
            zero = given[0].abs().sum() * 0
            both = [(zero, torch.zeros_like(zero))]
        used[:] = [t for _, t in both]
        return tuple(g for g, _ in both)

    found, back, *_ = torch.func.vjp(gradients, *cotangents)
    result = list(back(tuple(used)))
    left, size = _dot(found, used)
    right, further = _dot(cotangents, result)
    return result, (left - right).abs() > tolerance(found[0].dtype) * (size + further)


def _dot(left: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """<left, right>, complex numbers as pairs of reals, and the size of its terms."""
    products = [(a.conj() * b).real if a.is_complex() else a * b for a, b in zip(left, right, strict=True)]
    like = products[0]
    total = torch.stack([product.sum().to(like) for product in products]).sum()
    return total, torch.stack([product.abs().sum().to(like) for product in products]).sum()


def _noise(meta: Meta, seed: int, size: float) -> Tensor:
    """Numbers in (-size, size), the same every time and without a generator, which vmap might forbid."""
    count = meta.shape.numel() * (2 if meta.dtype.is_complex else 1)
    steps = torch.arange(1, count + 1, dtype=torch.float64, device=meta.device)
    numbers = ((steps * (12.9898 + seed)).sin() * 43758.5453).frac() * size
    if meta.dtype.is_complex:
        return torch.view_as_complex(numbers.reshape(*meta.shape, 2)).to(meta.dtype)
    return numbers.to(meta.dtype).reshape(meta.shape)
