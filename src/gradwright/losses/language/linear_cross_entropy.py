"""Cross entropy of the logits Z = X Wᵀ + b against classes y, a chunk of rows at a time, never all of Z.

The derivation, and what is done with a chunk, stand in ``chunks``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.launch.plan import Plan
from gradwright.losses.classification.cross_entropy import reference as _cross_entropy
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_for_kernels,
    are_values_to_be_read,
    options_of,
    require_real,
)
from gradwright.losses.common.classes import (
    INTEGERS,
    counted_classes,
    refuse_class,
    refuse_class_weight,
    require_class_weight,
)
from gradwright.losses.common.dividing import share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.plans import is_planned, tell, why_unfused
from gradwright.losses.common.precision import dtype_of_value
from gradwright.losses.language.chunks import Chunks, OfLogits, unfused

_WHERE = "linear_cross_entropy(input, linear_weight, target)"


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """``cross_entropy(input @ linear_weight.T + linear_bias, target)``, a chunk of rows at a time.

    Shapes: ``input`` [*, D]; ``linear_weight`` [C, D]; ``target`` class numbers [*]; ``linear_bias`` and ``weight`` (of
    classes, 0 or more) [C]; ``mask`` (bool: which rows count) broadcast to [*]. Result: a scalar; [*] with
    ``reduction="none"``. Rows of class ``ignore_index`` do not count. A mean is divided by the weights of the classes
    that count, or by ``num_items``. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: nats. Dtype: torch's promotion of ``input`` and ``linear_weight``, float32 under autocast; computed in
    float32 at least. Coupling: additive.
    Cost: the three products of matrices that the unfused loss takes (four with ``reduction="none"``). Memory beside
    the gradients, which are float32 until the backward: two chunks of 24 MB, whatever N is; of 16 bits a float32 copy
    of ``linear_weight``. Second derivatives, torch.func and torch.compile take the unfused form, with all logits in
    memory.
    Raises: UsageError for shapes that do not fit, a class there is none of, a negative weight.

    >>> import torch
    >>> x, w = torch.eye(2), torch.tensor([[0.0, 3.0], [1e4, 3.0]])
    >>> linear_cross_entropy(x, w, torch.tensor([1, 0]), reduction="none").tolist()
    [0.0, 0.693147...]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    _require_shapes(input, linear_weight, target, linear_bias)
    classes = linear_weight.shape[0]
    if not 0.0 <= label_smoothing <= 1.0:
        raise refusal(f"label_smoothing is {label_smoothing}", where=_WHERE, do="hand over a number from 0 to 1")
    if weight is not None:
        require_class_weight(_WHERE, weight, classes)
        if are_values_to_be_read([weight]):
            refuse_class_weight(_WHERE, weight)
    if mask is not None:
        require_broadcast(_WHERE, "mask", mask, target)
        mask = mask.expand(target.shape)
    is_counted = reduction == "mean" and num_items is None
    share = share_of(options, counted_classes(target, classes, weight, ignore_index, mask) if is_counted else 0.0)
    y = target.reshape(-1)
    loss = OfLogits(
        y, weight, None if mask is None else mask.reshape(-1), ignore_index, label_smoothing, reduction != "none"
    )
    x = input.reshape(-1, input.shape[-1])
    dtype = torch.promote_types(input.dtype, linear_weight.dtype)
    if reduction != "none":
        dtype = dtype_of_value(dtype)
    tensors = [input, linear_weight, target, linear_bias, weight, mask]
    learns = weight is not None and weight.requires_grad
    is_read = are_values_to_be_read(tensors)
    if learns or not are_for_kernels(tensors) or (is_read and not isinstance(share.of_each, float)):
        if is_planned():
            tell("value and gradients", Plan("torch", why_unfused(learns, input)))
        value = unfused(loss, x, linear_weight, linear_bias, share.of_each, dtype)
    else:
        value, faults = Chunks.apply(loss, share.of_each, dtype, x, linear_weight, linear_bias)  # type: ignore[no-untyped-call]
        if not is_read:
            value = torch.where(faults > 0, math.nan, value)
        elif faults.item():
            refuse_class(_WHERE, target, classes, ignore_index, mask)
    if reduction == "none":
        value = value.reshape(target.shape)
    return value if share.after is None else value * share.after


def reference(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of every row, unfused: all logits at once. ``input`` [N, D]."""
    return _cross_entropy(F.linear(input, linear_weight, linear_bias), target, weight, ignore_index, label_smoothing)


def _require_shapes(input: Tensor, linear_weight: Tensor, target: Tensor, linear_bias: Tensor | None) -> None:
    require_real(_WHERE, input=input, linear_weight=linear_weight)
    if not input.ndim or linear_weight.ndim != 2 or input.shape[-1] != linear_weight.shape[1]:
        is_turned = bool(input.ndim) and linear_weight.ndim == 2 and input.shape[-1] == linear_weight.shape[0]
        raise refusal(
            f"input has shape {list(input.shape)}, linear_weight {list(linear_weight.shape)}",
            where=_WHERE,
            why="input is [*, D], and linear_weight has a row of D numbers for each class, as torch.nn.Linear has it",
            do="hand over linear_weight.t()" if is_turned else "check the last axis of both",
        )
    classes = linear_weight.shape[0]
    if not classes:
        raise refusal(f"linear_weight is {told(linear_weight)}: no classes", where=_WHERE, do="check its shape")
    if linear_bias is not None:
        require_real(_WHERE, linear_bias=linear_bias)
        if linear_bias.shape != (classes,):
            raise refusal(
                f"linear_bias has shape {list(linear_bias.shape)}, and there are {classes} classes",
                where=_WHERE,
                do=f"hand over one number for each class: shape [{classes}]",
            )
    if not isinstance(target, Tensor) or target.dtype not in INTEGERS:
        raise refusal(
            f"target is {told(target)}",
            where=_WHERE,
            why="it holds class numbers, as integers",
            do="target.long(); of probabilities take cross_entropy of torch.nn.functional.linear(input, linear_weight)",
        )
    if target.shape != input.shape[:-1]:
        raise refusal(
            f"target has shape {list(target.shape)}, input {list(input.shape)}",
            where=_WHERE,
            why=f"the target has one class number for each row of input: shape {list(input.shape[:-1])}",
            do="check both; a language model's input and target are shifted by one: input[:, :-1], target[:, 1:]",
        )


class LinearCrossEntropyLoss(Loss):
    """``linear_cross_entropy`` as a module. The matrix is the caller's, and may be the embedding's.

    >>> import torch
    >>> head = torch.nn.Linear(8, 4, bias=False)
    >>> loss = LinearCrossEntropyLoss(ignore_index=0)(torch.zeros(2, 8), head.weight, torch.tensor([0, 3]))
    >>> loss.item()
    1.386294...
    """

    coupling = "additive"
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.register_buffer("weight", weight)
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        linear_weight: Tensor,
        target: Tensor,
        *,
        linear_bias: Tensor | None = None,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return linear_cross_entropy(
            input,
            linear_weight,
            target,
            linear_bias=linear_bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
