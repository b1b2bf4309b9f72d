"""Cross entropy of logits z against a class y, or against a distribution t over the classes.

With lse = log sum_k exp z_k = m + log sum_k exp(z_k - m), m = max_k z_k, softmax p_k = exp(z_k - lse), class weights
w_k and the label smoothing eps of C classes,

    t_k = (1 - eps) [k = y] + eps / C             (of a class; a distribution is smoothed the same way)
    l   = sum_k w_k t_k (lse - z_k)
    dl/dz_k = p_k sum_j w_j t_j - w_k t_k,        dl/dt_k = (1 - eps) w_k (lse - z_k)

Every exponent is 0 or below: nothing overflows. A mean is over the weights of the classes that count (of a
distribution: over the rows), as torch has it. Label smoothing: Szegedy et al. 2016, arXiv:1512.00567, section 7.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal
from gradwright.kernels.formula.stages import Axes
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Options,
    Reduction,
    are_values_to_be_read,
    options_of,
    refuse_values,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.classes import (
    class_axis,
    counted_classes,
    refuse_class,
    refuse_class_weight,
    require_class_weight,
    require_classes,
)
from gradwright.losses.common.dividing import counted, share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.rowwise import Formulas, RowLoss, rowwise

_WHERE = "cross_entropy(input, target)"
_SOFTMAX = {"m": "max: z", "s": "sum: exp(z - m)"}
_P = "exp(z - m) * inverse"


def _classes(is_weighted: bool, is_smoothed: bool) -> RowLoss:
    """Of sums around m, so that they stay small: lse - z_k = log s - (z_k - m)."""
    w, wy = ("w", "wy") if is_weighted else ("1", "1")
    stages = {**_SOFTMAX, "zy": "at y: z - m", "l": "row: log(s)", "inverse": "row: 1 / s"}
    inputs: dict[str, Axes] = {"z": "element", "y": "row", "ignored": "number", "classes": "number"}
    if is_weighted:
        inputs["w"] = "class"
        stages["wy"] = "at y: w"
    value, slope = f"{wy} * (l - zy)", f"{wy} * ({_P} - where(k == y, 1, 0))"
    if is_smoothed:
        inputs["eps"] = "number"
        stages |= {"sw": f"sum: {w}", "sz": f"sum: {w} * (z - m)"}
        value = f"(1 - eps) * ({value}) + eps / classes * (sw * l - sz)"
        slope = f"(1 - eps) * ({slope}) + eps / classes * (sw * {_P} - {w})"
    return RowLoss(
        Formulas(
            inputs,
            stages,
            f"where(y == ignored, 0, {value})",
            {"z": f"where(y == ignored, 0, g * ({slope}))"},
            "where(y != ignored and (y < 0 or y >= classes), 1, 0)",
        )
    )


def _distributions(is_weighted: bool) -> RowLoss:
    w = "w" if is_weighted else "1"
    inputs: dict[str, Axes] = {"z": "element", "t": "element", "classes": "number", "eps": "number"}
    if is_weighted:
        inputs["w"] = "class"
    weighed = f"({w} * ((1 - eps) * t + eps / classes))"
    stages = {
        **_SOFTMAX,
        "st": f"sum: {weighed}",
        # 0 * inf, of a class that is impossible and has no part, is 0.
        "sz": f"sum: where({weighed} == 0, 0, {weighed} * (z - m))",
        "bad": "sum: where(t >= 0, 0, 1)",
        "l": "row: log(s)",
        "inverse": "row: 1 / s",
    }
    return RowLoss(
        Formulas(
            inputs,
            stages,
            "st * l - sz",
            {"z": f"g * (st * {_P} - {weighed})", "t": f"g * (1 - eps) * {w} * (l - (z - m))"},
            "bad",
        )
    )


OF_CLASSES = {(w, e): _classes(w, e) for w in (False, True) for e in (False, True)}
_OF_DISTRIBUTIONS = {w: _distributions(w) for w in (False, True)}


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """-log softmax(input) at the target's class, or its mean under the target's distribution.

    Shapes: ``input`` logits [N, C, *] or [C]; ``target`` class numbers [N, *] or [] (integers), or probabilities of the
    shape of ``input``; ``weight`` [C]; ``mask`` (bool) broadcast to [N, *]. Result: a scalar; [N, *] with
    ``reduction="none"``. Rows of class ``ignore_index`` do not count. A mean is divided by the weights of the classes
    that count (of probabilities: by the number of rows), or by ``num_items``.
    Units: nats. Dtype: that of ``input``, float32 under autocast; computed in float32 at least.
    Coupling: additive. Cost: one pass: the logits read, their gradient written: 8 bytes a logit in float32.
    Raises: UsageError for shapes that do not fit, a class there is none of, a negative weight or probability.

    >>> import torch
    >>> cross_entropy(torch.tensor([[0.0, 1e4], [3.0, 3.0]]), torch.tensor([1, 0]), reduction="none").tolist()
    [0.0, 0.693147...]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input)
    dim = class_axis(_WHERE, input)
    classes = input.shape[dim]
    if not 0.0 <= label_smoothing <= 1.0:
        raise refusal(f"label_smoothing is {label_smoothing}", where=_WHERE, do="hand over a number from 0 to 1")
    if weight is not None:
        require_class_weight(_WHERE, weight, classes)
        if are_values_to_be_read([weight]):
            refuse_class_weight(_WHERE, weight)
    if target.is_floating_point() and target.ndim == input.ndim:
        require_same_shape(_WHERE, input=input, target=target)
        return _against_distributions(input, target, weight, options, label_smoothing, dim)
    require_classes(_WHERE, input, target, dim)
    return _against_classes(input, target, weight, options, label_smoothing, dim, ignore_index)


def _against_classes(
    input: Tensor, target: Tensor, weight: Tensor | None, options: Options, eps: float, dim: int, ignored: int
) -> Tensor:
    classes = input.shape[dim]
    mask = _mask_of_rows(options.mask, target)
    operands: dict[str, Any] = {"z": input, "y": target, "ignored": float(ignored), "classes": float(classes)}
    if weight is not None:
        operands["w"] = weight
    if eps:
        operands["eps"] = eps

    is_counted = options.reduction == "mean" and options.num_items is None
    share = share_of(options, counted_classes(target, classes, weight, ignored, mask) if is_counted else 0.0)
    return rowwise(
        OF_CLASSES[weight is not None, bool(eps)],
        operands,
        dim,
        options._replace(mask=mask),
        share,
        lambda z: reference(z, target, weight, ignored, eps),
        lambda: refuse_class(_WHERE, target, classes, ignored, mask),
    )


def _against_distributions(
    input: Tensor, target: Tensor, weight: Tensor | None, options: Options, eps: float, dim: int
) -> Tensor:
    classes = input.shape[dim]
    mask = _mask_of_rows(options.mask, input.select(dim, 0))
    operands: dict[str, Any] = {"z": input, "t": target, "classes": float(classes), "eps": eps}
    if weight is not None:
        operands["w"] = weight

    def look() -> None:
        bad = ~(target.detach() >= 0)
        if mask is not None:
            bad &= mask.unsqueeze(dim)
        do = "hand over probabilities, 0 or more"
        refuse_values(_WHERE, {"target": ("is negative or NaN", target.detach(), bad, do)})

    return rowwise(
        _OF_DISTRIBUTIONS[weight is not None],
        operands,
        dim,
        options._replace(mask=mask),
        share_of(options, counted(mask, input.numel() // classes)),
        lambda z, t: reference(z, t, weight, label_smoothing=eps),
        look,
    )


def _mask_of_rows(mask: Tensor | None, rows: Tensor) -> Tensor | None:
    if mask is None:
        return None
    require_broadcast(_WHERE, "mask", mask, rows)
    return mask.expand(rows.shape)


def reference(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of every row, unfused."""
    if weight is not None:
        weight = weight.to(input.dtype)
    if not target.is_floating_point():
        target = target.long()
    return F.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction="none", label_smoothing=label_smoothing
    )


class CrossEntropyLoss(Loss):
    """``cross_entropy`` as a module.

    >>> import torch
    >>> CrossEntropyLoss(ignore_index=0)(torch.zeros(2, 4), torch.tensor([0, 3])).item()
    1.386294...
    """

    coupling = "additive"
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction
        self.label_smoothing = label_smoothing
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return cross_entropy(
            input,
            target,
            self.weight,
            self.ignore_index,
            self.reduction,
            self.label_smoothing,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
