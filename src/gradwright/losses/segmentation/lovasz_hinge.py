"""The Lovasz hinge: a convex stand-in for the Jaccard loss of a binary segmentation, piecewise linear in the logits.

With logits z and labels y, the errors are the hinge's margins, and the loss is their Lovasz extension (see ``lovasz``):

    e_i = max(0, 1 - z_i) where y_i = 1,   max(0, 1 + z_i) where y_i = 0,        l = sum_i s_i e_i
    dl/dz_i = -s_i or s_i where e_i > 0, else 0;  its own derivative is 0 wherever there is one

Berman et al. 2018, "The Lovasz-Softmax loss", arXiv:1705.08790, section 2 and equation 11; Yu & Blaschko 2015, "The
Lovasz Hinge", arXiv:1512.07797. Berman's code calls it lovasz_hinge, segmentation_models_pytorch LovaszLoss("binary").
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    refuse_values,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss
from gradwright.losses.common.precision import dtype_of_value, widened
from gradwright.losses.segmentation.confusion import beside, mask_of_rows
from gradwright.losses.segmentation.lovasz import Rows, as_rows, lovasz_of, reduced, slopes_by_torch

_WHERE = "lovasz_hinge_loss(input, target)"


def lovasz_hinge_loss(
    input: Tensor,
    target: Tensor,
    per_image: bool = False,
    ignore_index: int | None = None,
    *,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """The Lovasz extension of the Jaccard loss, of the hinge's margins of logits, over all elements of the batch.

    Shapes: ``input`` (logits, not probabilities) and ``target`` (0 or 1) alike, or one with an axis 1 of length 1.
    ``per_image``: of each entry along axis 0 apart. ``mask`` (bool, broadcast to the input) and ``ignore_index`` say
    which elements count; where none of an image does, its loss is 0. Result: the mean over images, their sum, or
    [N] with ``reduction="none"`` ([1], where it is not per image).
    Dtype: that of ``input``, float32 under autocast. Coupling: batch: the order of all errors decides.
    Cost: a radix sort of the elements within the margin, of one number for each; 16 bytes of memory for each.
    Raises: UsageError for shapes that differ and labels but 0 and 1.

    >>> import torch
    >>> logits = torch.tensor([[2.0, -0.5, -3.0]], requires_grad=True)
    >>> loss = lovasz_hinge_loss(logits, torch.tensor([[1, 1, 0]]))
    >>> loss.backward()
    >>> loss.item(), logits.grad.tolist()
    (0.75, [[0.0, -0.5, 0.0]])
    """
    options_of(_WHERE, reduction, mask, None, empty)
    require_real(_WHERE, input=input)
    if not isinstance(target, Tensor) or target.is_complex():
        raise refusal(f"target is {told(target)}", where=_WHERE, do="hand over a tensor of labels, 0 or 1")
    target = beside(input, target)
    require_same_shape(_WHERE, input=input, target=target)
    if not input.ndim:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    counts = mask_of_rows(_WHERE, mask, input)
    if ignore_index is not None:
        counts = target != ignore_index if counts is None else counts & (target != ignore_index)
    logits = as_rows(widened(input)).unsqueeze(1)
    if counts is not None:
        counts = as_rows(counts)

    def look() -> None:
        values = target.detach()
        bad = (values != 0) & (values != 1)
        if counts is not None:
            bad &= counts.reshape(bad.shape)
        refuse_values(_WHERE, {"target": ("is not 0 or 1", values.double(), bad, "compare: (target > 0.5).long()")})

    images = 1 if per_image else max(input.shape[0], 1)
    made = lovasz_of(logits, Rows(as_rows(target), counts, images, 1, 1.0, False), look)
    return reduced(made.losses[:, 0], _anything(counts, input), dtype_of_value(input.dtype), reduction, empty)


def _anything(counts: Tensor | None, input: Tensor) -> Tensor:
    return counts.any() if counts is not None else input.new_full((), input.numel() > 0, dtype=torch.bool)


def reference(input: Tensor, target: Tensor) -> Tensor:
    """The loss of one image, or of a whole batch as one, unfused."""
    logits, is_true = input.flatten(), target.flatten() == 1
    errors = torch.where(is_true, 1 - logits, 1 + logits)
    return (errors * slopes_by_torch(errors, is_true)).sum()


class LovaszHingeLoss(Loss):
    """``lovasz_hinge_loss`` as a module.

    >>> import torch
    >>> LovaszHingeLoss()(torch.zeros(1, 4), torch.tensor([[0, 1, 0, 1]])).item()
    1.0
    """

    coupling = "batch"

    def __init__(
        self,
        per_image: bool = False,
        ignore_index: int | None = None,
        *,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.per_image = per_image
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return lovasz_hinge_loss(
            input,
            target,
            self.per_image,
            self.ignore_index,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
