"""The Lovasz-Softmax loss: for each class the Lovasz extension of the Jaccard loss, of the probabilities' errors.

With p = softmax(z) over the classes and labels y, for each class c (see ``lovasz`` for the slopes s)

    e_i = 1 - p_ic where y_i = c,   p_ic elsewhere,        l_c = sum_i s_ic e_i,        dl_c/dp_ic = -s_ic or s_ic

and the loss is the mean over the classes that are present in the labels, or over all. Through the softmax the chain
rule takes the gradient, which is linear in p given the order: second derivatives are those of the softmax. Berman et
al. 2018, "The Lovasz-Softmax loss", arXiv:1705.08790, section 3, equations 12 to 14; the options are those of Berman's
code, and from_logits that of segmentation_models_pytorch's LovaszLoss("multiclass").
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_values_to_be_read,
    options_of,
    refuse_values,
    require_real,
)
from gradwright.losses.common.classes import refuse_class, require_classes
from gradwright.losses.common.module import Loss
from gradwright.losses.common.precision import dtype_of_value, widened
from gradwright.losses.segmentation.confusion import mask_of_rows
from gradwright.losses.segmentation.lovasz import Rows, as_rows, lovasz_of, reduced, slopes_by_torch

_WHERE = "lovasz_softmax_loss(input, target)"
_LOOSE = 1e-4
Classes = Literal["present", "all"]


def lovasz_softmax_loss(
    input: Tensor,
    target: Tensor,
    classes: Classes = "present",
    per_image: bool = False,
    ignore_index: int | None = None,
    *,
    from_logits: bool = True,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """The Lovasz extension of the Jaccard loss of every class, of the errors of softmax probabilities, and their mean.

    Shapes: ``input`` [N, C, *], logits, or probabilities where not ``from_logits``; ``target`` class numbers [N, *].
    ``classes``: the mean is over those that are "present" in the labels, or "all". ``per_image``: of each entry along
    axis 0 apart. ``mask`` (bool, broadcast to [N, *]) and ``ignore_index`` say which positions count; where none of an
    image does, its loss is 0. Result: the mean over images, their sum, or [N] with ``reduction="none"`` ([1], where it
    is not per image).
    Dtype: that of ``input``, float32 under autocast. Coupling: batch: the order of all errors decides.
    Cost: a radix sort for each class, of one number for each position; 16 bytes of memory for each position and thread.
    Raises: UsageError for shapes that do not fit, a class there is none of, and what is no probability.

    >>> import torch
    >>> lovasz_softmax_loss(torch.zeros(1, 2, 4), torch.tensor([[0, 1, 1, 1]])).item()
    0.5
    """
    _require(classes)
    options_of(_WHERE, reduction, mask, None, empty)
    require_real(_WHERE, input=input)
    if input.ndim < 2:
        raise refusal(f"input is {told(input)}", where=_WHERE, why="it is [N, C, *]", do="input.unsqueeze(0)")
    if not isinstance(target, Tensor):
        raise refusal(f"target is {told(target)}", where=_WHERE, do="hand over class numbers [N, *]")
    require_classes(_WHERE, input, target, 1)
    if not input.shape[1]:
        raise refusal(f"input is {told(input)}: it has no classes", where=f"{_WHERE}, axis 1", do="check its shape")
    counts = mask_of_rows(_WHERE, mask, target)
    if ignore_index is not None:
        counts = target != ignore_index if counts is None else counts & (target != ignore_index)
    wide = widened(input)
    if counts is not None:  # so that no NaN of what does not count reaches a gradient
        wide = torch.where(counts.unsqueeze(1), wide, 0.0)
    if from_logits:
        with torch.autocast(input.device.type, enabled=False):
            wide = wide.softmax(1)
    elif are_values_to_be_read([wide]):
        _refuse_no_probabilities(wide)
    probabilities = wide.reshape(*wide.shape[:2], -1) if wide.numel() else wide.reshape(*wide.shape[:2], 0)

    def look() -> None:
        refuse_class(_WHERE, target, input.shape[1], ignore_index, mask_of_rows(_WHERE, mask, target))

    of_rows = None if counts is None else as_rows(counts)
    images = 1 if per_image else max(input.shape[0], 1)
    is_present = classes == "present"
    made = lovasz_of(probabilities, Rows(as_rows(target), of_rows, images, 0, 0.0, is_present), look)
    if is_present:
        there = made.true > 0
        losses = torch.where(there, made.losses, 0.0).sum(1) / there.sum(1).clamp_min(1)
    else:
        losses = made.losses.mean(1)
    anything = counts.any() if counts is not None else input.new_full((), target.numel() > 0, dtype=torch.bool)
    return reduced(losses, anything, dtype_of_value(input.dtype), reduction, empty)


def _require(classes: str) -> None:
    if classes not in get_args(Classes):
        raise refusal(f"classes is {classes!r}", where=_WHERE, do='"present" or "all": what the mean is over')


def _refuse_no_probabilities(input: Tensor) -> None:
    values = input.detach()
    if not values.numel():
        return
    least, most = values.aminmax()
    if least < -_LOOSE or most > 1 + _LOOSE:
        bad = (values < -_LOOSE) | (values > 1 + _LOOSE)
        refuse_values(_WHERE, {"input": ("is not from 0 to 1", values, bad, "if it is logits, from_logits=True")})


def reference(probabilities: Tensor, target: Tensor, classes: Classes = "present") -> Tensor:
    """The loss of probabilities [N, C, *], all images as one, unfused."""
    losses = []
    for number in range(probabilities.shape[1]):
        is_true = (target == number).flatten()
        if classes == "all" or bool(is_true.any()):
            p = probabilities[:, number].flatten()
            errors = torch.where(is_true, 1 - p, p)
            losses.append((errors * slopes_by_torch(errors, is_true)).sum())
    return torch.stack(losses).mean()


class LovaszSoftmaxLoss(Loss):
    """``lovasz_softmax_loss`` as a module.

    >>> import torch
    >>> LovaszSoftmaxLoss("all")(torch.zeros(1, 4, 2), torch.tensor([[0, 1]])).item()
    0.5
    """

    coupling = "batch"

    def __init__(
        self,
        classes: Classes = "present",
        per_image: bool = False,
        ignore_index: int | None = None,
        *,
        from_logits: bool = True,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        _require(classes)
        options_of(_WHERE, reduction, None, None, empty)
        self.classes: Classes = classes
        self.per_image = per_image
        self.ignore_index = ignore_index
        self.from_logits = from_logits
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return lovasz_softmax_loss(
            input,
            target,
            self.classes,
            self.per_image,
            self.ignore_index,
            from_logits=self.from_logits,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
