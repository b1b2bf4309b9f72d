"""The Lovasz extension of the Jaccard loss, which both Lovasz losses are.

Of errors e_i >= 0 with labels y_i (true or not), in descending order of the errors, let G be how many are true, and
among the first i let t_i be true and f_i not. The Jaccard loss of the set that consists of the first i mistakes is

    J_i = 1 - (G - t_i) / (G + f_i),        loss = sum_i e_i s_i,        s_i = J_i - J_(i-1)

The slopes are no difference of numbers near 1 (which leaves nothing of them in float32 from 1e7 elements on), but

    s_i = 1 / (G + f_i)                                  where i is true,
    s_i = (G - t_i) / ((G + f_i) (G + f_i - 1))          where it is not; where G = 0: 1 for the first, 0 after it

Given the order they are constant, so they are the gradient: the loss is linear in the errors nearly everywhere. Equal
errors keep their order: what comes out is one of the subgradients there. Berman et al. 2018, "The Lovasz-Softmax loss",
arXiv:1705.08790, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.machine.compiling import NoMachineCode
from gradwright.losses.common.arguments import Empty, Reduction, are_values_to_be_read
from gradwright.losses.common.plans import is_planned, tell
from gradwright.losses.segmentation.lovasz_kernel import extension_by_kernel


class Rows(NamedTuple):
    """What is put in order: for each class the elements of ``images`` images. ``target``: of numbers [N, P], the class
    c being ``first_class`` + c; ``mask``: [N, P]. An error is 1 - x for true elements, ``base`` + x for others."""

    target: Tensor
    mask: Tensor | None
    images: int
    first_class: int
    base: float
    wants_present: bool


class OfRows(NamedTuple):
    """``losses``, and how many elements are ``true``: [R, C] of R = N / images."""

    losses: Tensor
    true: Tensor


def lovasz_of(x: Tensor, rows: Rows, look: Callable[[], None]) -> OfRows:
    """The extension, float64, of ``x`` [N, C, P], differentiable to any order with respect to it.

    ``look`` is called where a label is refused. Cost: a radix sort of the positive errors (float32); of float64, and
    where values can't be read, torch's.
    """
    if not are_values_to_be_read([x, rows.target, rows.mask]):
        return _watched(x, rows, "torch's operations are traced, transformed or watched, or it is no CPU")
    if x.dtype is not torch.float32:
        refused = _refused(x, rows)
        if bool(refused.any()):
            look()
        return _watched(x, rows, f"the kernel puts float32 in order, not {x.dtype}")
    try:
        losses, true, refused = _Extension.apply(x, rows)  # type: ignore[no-untyped-call]
    except NoMachineCode as reason:
        if bool(_refused(x, rows).any()):
            look()
        return _watched(x, rows, str(reason))
    if bool(refused.any()):
        look()
    return OfRows(losses, true)


def reduced(losses: Tensor, anything: Tensor, dtype: torch.dtype, reduction: Reduction, empty: Empty) -> Tensor:
    """Of a loss for each image (or one), as asked for; NaN, where nothing counts and that is wanted."""
    if reduction == "mean":
        losses = losses.sum() / max(losses.numel(), 1)
    elif reduction == "sum":
        losses = losses.sum()
    if empty == "nan":
        losses = torch.where(anything, losses, torch.nan)
    return losses.to(dtype)


def as_rows(tensor: Tensor) -> Tensor:
    """[N, *] as [N, P]."""
    return tensor.reshape(tensor.shape[0], -1) if tensor.numel() else tensor.reshape(tensor.shape[0], 0)


def slopes_by_torch(errors: Tensor, is_true: Tensor) -> Tensor:
    """s above, of errors [..., P] in any order; float64, not differentiable. Those of errors of 0 or less are 0."""
    wide = torch.float32 if errors.device.type == "mps" else torch.float64
    errors = errors.detach()
    order = errors.argsort(dim=-1, descending=True, stable=True)
    label = is_true.gather(-1, order)
    total = label.sum(-1, keepdim=True)
    left = (total - label.cumsum(-1)).to(wide)
    union = (total + (~label).cumsum(-1)).to(wide)
    of_false = torch.where(total == 0, (union == 1).to(wide), left / (union * (union - 1).clamp_min(1)))
    slopes = torch.where(label, 1 / union.clamp_min(1), of_false)
    return torch.zeros_like(slopes).scatter(-1, order, slopes) * (errors > 0)


def _watched(x: Tensor, rows: Rows, why: str) -> OfRows:
    if is_planned():
        tell("value and slopes", Plan("torch", why))
    return _by_torch(x, rows)


def _by_torch(x: Tensor, rows: Rows) -> OfRows:
    count, classes, positions = x.shape
    numbers = torch.arange(rows.first_class, classes + rows.first_class, device=x.device)
    is_true = rows.target.unsqueeze(1) == numbers.view(1, -1, 1)
    errors = torch.where(is_true, 1 - x, rows.base + x)
    if rows.mask is not None:
        counts = rows.mask.unsqueeze(1)
        is_true = is_true & counts
        errors = torch.where(counts, errors, 0.0)
    shape = (count // rows.images, rows.images, classes, positions)

    def in_rows(tensor: Tensor) -> Tensor:
        return tensor.expand(x.shape).reshape(shape).transpose(1, 2).flatten(2)

    errors, is_true = in_rows(errors), in_rows(is_true)
    slopes = slopes_by_torch(errors, is_true)
    return OfRows((errors.relu() * slopes).sum(-1), is_true.sum(-1))


def _refused(x: Tensor, rows: Rows) -> Tensor:
    """Labels that are no class's number."""
    target = rows.target
    bad = ~((target >= 0) & (target < x.shape[1] + rows.first_class))
    if target.is_floating_point():
        bad |= target != target.round()
    return bad if rows.mask is None else bad & rows.mask


class _Extension(torch.autograd.Function):
    """``apply`` takes x and Rows; the results have the shape [R, C]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        made = extension_by_kernel(
            x.detach(), rows.target.detach(), rows.mask, rows.images, rows.first_class, rows.base, rows.wants_present
        )
        ctx.save_for_backward(x, made.slopes)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(made.true, made.refused)
        return made.values, made.true, made.refused

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, None]:
        x, slopes = ctx.saved_tensors
        if cotangent is None:
            return None, None
        # Linear in what arrives, and constant in x: torch differentiates this as it stands. The second derivative is 0,
        # which is not the same as none: hence the sign.
        if torch.is_grad_enabled():
            slopes = slopes + 0.0 * x.sign()
        images, classes = slopes.shape[0] // cotangent.shape[0], slopes.shape[1]
        of_rows = cotangent.to(slopes.dtype).reshape(-1, 1, classes, 1)
        return (slopes.view(-1, images, *slopes.shape[1:]) * of_rows).view(slopes.shape), None
