"""The three sums that overlap losses are made of, for each class c over all positions of a batch:

    intersection I = sum p t,      predicted P = sum p,      true T = sum t

with p the probability (sigmoid or softmax of the logits z, or the input itself) and t the target. A loss L(I, P, T) has

    dL/dp = (dL/dI) t + dL/dP
    sigmoid: dL/dz = (dL/dp) s(z) s(-z),        softmax: dL/dz_k = p_k (dL/dp_k - sum_j p_j dL/dp_j)

The sums are float64: they overflow in no dtype (smp issue 463: NaN from 262,144 pixels of float16 on).
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.formula.stages import Axes
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import refuse_values, require_real, require_same_shape
from gradwright.losses.common.class_sums import ClassSums, SumFormulas
from gradwright.losses.common.classes import refuse_class, require_classes

Mode = Literal["binary", "multiclass", "multilabel"]
NO_CLASS: Final = -100  # no class has this number


class Overlap(NamedTuple):
    """Sums for each class, float64 of shape [C] ([1] of mode "binary")."""

    intersection: Tensor
    predicted: Tensor
    true: Tensor


def _of_labels(from_logits: bool) -> ClassSums:
    """Of a target of the prediction's shape, from 0 to 1; a sum is NaN where it is not (see ``overlap_of``)."""
    p = "sigmoid(z)" if from_logits else "z"
    slope = " * (sigmoid(z) * sigmoid(-z))" if from_logits else ""
    counts = "where(t == ignored, 0, {})"
    inputs: dict[str, Axes] = {"z": "element", "t": "element", "ignored": "number"}
    return ClassSums(
        SumFormulas(
            inputs,
            {},
            {
                "intersection": counts.format(f"{p} * t"),
                "predicted": counts.format(p),
                "true": counts.format("where(t >= 0 and t <= 1, t, nan)"),
            },
            counts.format(f"(d_intersection * t + d_predicted){slope}"),
        )
    )


def _of_classes(from_logits: bool) -> ClassSums:
    stages = {"m": "max: z", "s": "sum: exp(z - m)", "inverse": "row: 1 / s"} if from_logits else {}
    p = "(exp(z - m) * inverse)" if from_logits else "z"
    d = "(where(k == y, d_intersection, 0) + d_predicted)"
    gradient = d
    if from_logits:
        stages["mean"] = f"sum: {p} * {d}"
        gradient = f"{p} * ({d} - mean)"
    counts = "where(y == ignored, 0, {})"
    inputs: dict[str, Axes] = {"z": "element", "y": "row", "ignored": "number", "classes": "number"}
    return ClassSums(
        SumFormulas(
            inputs,
            stages,
            {
                "intersection": counts.format(f"where(k == y, {p}, 0)"),
                "predicted": counts.format(p),
                "true": counts.format("where(k == y, 1, 0)"),
            },
            counts.format(gradient),
            "where(y != ignored and (y < 0 or y >= classes), 1, 0)",
        )
    )


_LABELS = {from_logits: _of_labels(from_logits) for from_logits in (False, True)}
_CLASSES = {from_logits: _of_classes(from_logits) for from_logits in (False, True)}


def overlap_of(
    where: str,
    input: Tensor,
    target: Tensor,
    mode: Mode,
    from_logits: bool,
    mask: Tensor | None = None,
    ignore_index: int | None = None,
) -> Overlap:
    """The sums, differentiable to any order with respect to ``input``.

    Shapes: mode "binary": ``input`` and ``target`` alike (or one with an axis 1 of length 1); "multilabel": [N, C, *]
    both; "multiclass": [N, C, *] and class numbers [N, *]. ``mask`` (bool): which positions count, broadcast to [N, *]
    ("binary": to the input). A target of ``ignore_index`` does not count.
    Cost: one pass over input and target, and one more in the backward: 20 bytes an element of float32.
    Raises: UsageError.
    """
    if mode not in get_args(Mode):
        raise refusal(f"mode is {mode!r}", where=where, do='"binary", "multiclass" or "multilabel"')
    require_real(where, input=input)
    if not isinstance(target, Tensor) or target.is_complex():
        raise refusal(f"target is {told(target)}", where=where, do="hand over a tensor of labels")
    if mode != "binary" and input.ndim < 2:
        raise refusal(f"input is {told(input)}", where=where, why=f"of mode {mode!r} it is [N, C, *]", do="check it")
    if mode == "binary":
        if target.ndim == input.ndim - 1 and input.shape[1:2] == (1,):
            target = target.unsqueeze(1)
        elif target.ndim == input.ndim + 1 and target.shape[1:2] == (1,):
            target = target.squeeze(1)
    if mode == "multiclass":
        require_classes(where, input, target, 1)
        return _of_multiclass(where, input, target, from_logits, mask, ignore_index)
    require_same_shape(where, input=input, target=target)
    if mode == "binary":  # one class, to which every element belongs
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    return _of_multilabel(where, input, target, 0 if mode == "binary" else 1, from_logits, mask, ignore_index)


def _of_multilabel(
    where: str,
    input: Tensor,
    target: Tensor,
    dim: int,
    from_logits: bool,
    mask: Tensor | None,
    ignore_index: int | None,
) -> Overlap:
    ignored = NO_CLASS if ignore_index is None else ignore_index
    counts = _mask_of_rows(where, mask, input.select(dim, 0) if input.shape[dim] else input.sum(dim))

    def unfused(z: Tensor) -> Tensor:
        p = z.sigmoid() if from_logits else z
        t = target.to(p.dtype)
        each = torch.stack([p * t, p, t.expand(p.shape)])
        return torch.where(target == ignored, 0.0, each)

    def look() -> None:
        values = target.detach()
        bad = ~((values >= 0) & (values <= 1)) & (values != ignored)
        if counts is not None:
            bad &= counts.unsqueeze(dim)
        bad, values = (bad.squeeze(0), values.squeeze(0)) if dim == 0 else (bad, values)
        do = "labels are 0 or 1, or between; those to leave out are ignore_index"
        refuse_values(where, {"target": ("is not from 0 to 1", values.double(), bad, do)})

    operands: dict[str, Any] = {"z": input, "t": target, "ignored": float(ignored)}
    sums = _LABELS[from_logits](operands, dim, counts, unfused, look)
    return Overlap(*sums)


def _of_multiclass(
    where: str, input: Tensor, target: Tensor, from_logits: bool, mask: Tensor | None, ignore_index: int | None
) -> Overlap:
    ignored = NO_CLASS if ignore_index is None else ignore_index
    counts = _mask_of_rows(where, mask, target)
    classes = input.shape[1]

    def unfused(z: Tensor) -> Tensor:
        p = z.softmax(1) if from_logits else z
        numbers = torch.arange(classes, device=z.device).view(-1, *[1] * (z.ndim - 2))
        t = (target.unsqueeze(1) == numbers).to(p.dtype)
        return torch.where((target == ignored).unsqueeze(1), 0.0, torch.stack([p * t, p, t]))

    operands: dict[str, Any] = {"z": input, "y": target, "ignored": float(ignored), "classes": float(classes)}
    known = None if ignore_index is None else ignored
    sums = _CLASSES[from_logits](
        operands, 1, counts, unfused, lambda: refuse_class(where, target, classes, known, counts)
    )
    return Overlap(*sums)


def _mask_of_rows(where: str, mask: Tensor | None, rows: Tensor) -> Tensor | None:
    if mask is None:
        return None
    require_broadcast(where, "mask", mask, rows)
    return mask.expand(rows.shape)
