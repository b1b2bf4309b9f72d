"""The triplet margin loss: an anchor a is to be nearer to a positive b than to a negative c, by a margin.

With the distance d(x, y) = (sum_k |x_k - y_k + eps|^p)^(1/p) over the last axis (the form of
torch.nn.functional.pairwise_distance: eps keeps its slope finite where points coincide),

    h = margin + d(a, b) - D,       D = d(a, c),    with ``swap``  min(d(a, c), d(b, c))
    l = max(h, 0)

With v = x - y + eps and its slope s(v)_k = sign(v_k) (|v_k| / d)^(p - 1), which is v_k / d for p = 2 (and 0 for d = 0),

    dl/da = s(a - b + eps) - s(a - c + eps),    dl/db = -s(a - b + eps),    dl/dc = s(a - c + eps)     where h > 0

and at h = 0 what ``torch.nn.functional.triplet_margin_loss`` has there, which ends in a clamp: these slopes up to torch
2.13, 0 from 2.14 on (``ties``). Where the swapped distance is the smaller one, -s(b - c + eps) goes to b and
s(b - c + eps) to c instead; of equal ones both count half, as torch's ``minimum`` has it.

Balntas et al. 2016, "Learning local feature descriptors with triplets and shallow convolutional neural networks", BMVC,
equation 3 and section 3.2 (the swap).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions import ties
from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.formula.stages import Axes
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    require_not_negative,
    require_positive,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.dividing import counted, share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.rowwise import Formulas, RowLoss, rowwise

_WHERE = "triplet_margin_loss(anchor, positive, negative)"
_AB, _AC, _BC = "(a - b + eps)", "(a - c + eps)", "(b - c + eps)"


def _of(is_square: bool, is_swapped: bool) -> RowLoss:
    points = {"near": _AB, "far": _AC, **({"other": _BC} if is_swapped else {})}
    power, root = ("{0} * {0}", "sqrt({0}_sum)") if is_square else ("pow(abs({0}), p)", "pow({0}_sum, 1 / p)")
    near, far, other = (root.format(name) for name in ("near", "far", "other"))
    h, part = f"margin + {near} - {far}", dict.fromkeys(points, "g")
    if is_swapped:
        h = f"margin + {near} - min({far}, {other})"
        part["far"] = "g * where(far_sum < other_sum, 1, where(far_sum > other_sum, 0, 0.5))"
        part["other"] = "g * where(far_sum < other_sum, 0, where(far_sum > other_sum, 1, 0.5))"
    of_norm = "{0}_part * {1}" if is_square else "{0}_part * where({1} == 0, 0, sign({1}) * pow(abs({1}) / {0}, p - 1))"
    slopes = {name: of_norm.format(name, v) for name, v in points.items()}

    def stages() -> dict[str, str]:
        found = {f"{name}_sum": f"sum: {power.format(v)}" for name, v in points.items()}
        # A kernel of short rows has room for few stages: these share what they are made of without one.
        found["loss"] = f"row: max({h}, 0)"
        counts = f"{h} {'>=' if ties.find_ties().passes_at_numbers else '>'} 0"
        for name in points:
            if is_square:
                found[f"{name}_part"] = (
                    f"row: where({counts} and {name}_sum > 0, {part[name]} / {root.format(name)}, 0)"
                )
            else:
                found |= {f"{name}_part": f"row: where({counts}, {part[name]}, 0)", name: f"row: {root.format(name)}"}
        return found

    inputs: dict[str, Axes] = {"a": "element", "b": "element", "c": "element", "margin": "number", "eps": "number"}
    if not is_square:
        inputs["p"] = "number"
    of_near, of_far, of_other = slopes["near"], slopes["far"], slopes.get("other", "0")
    gradients = {"a": f"{of_near} - {of_far}", "b": f"-({of_near}) - {of_other}", "c": f"{of_far} + {of_other}"}
    return RowLoss(Formulas(inputs, stages, "loss", gradients))


_TRIPLET = {(square, swap): _of(square, swap) for square in (False, True) for swap in (False, True)}


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """max(margin + d(anchor, positive) - d(anchor, negative), 0), of points along the last axis.

    Shapes: all three alike, [N, D] or [*, D]; ``mask`` (bool: which triplets count) broadcast to [*]. ``p``: of the
    norm, 1 or more; ``eps`` is added to each difference; ``swap``: the negative's distance is that to anchor or
    positive, whichever is less. Result: a scalar; [*] with ``reduction="none"``. ``num_items``: what the sum is divided
    by instead of the count. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: those of the points. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: three points read, three gradients written: 24 bytes an element in float32.
    Raises: UsageError for shapes that differ, p below 1, a margin or eps that can't be right.

    >>> import torch
    >>> a, b, c = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 0.0]])
    >>> triplet_margin_loss(a, b, c, margin=2.0, eps=0.0).item()
    1.0
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, anchor=anchor, positive=positive, negative=negative)
    require_same_shape(_WHERE, anchor=anchor, positive=positive, negative=negative)
    _require_numbers(margin, p, eps)
    if not anchor.ndim or not anchor.shape[-1]:
        raise refusal(f"anchor is {told(anchor)}: no points along a last axis", where=_WHERE, do="hand over [N, D]")
    dim = anchor.ndim - 1
    if mask is not None:
        require_broadcast(_WHERE, "mask", mask, anchor.select(dim, 0))
        mask = mask.expand(anchor.shape[:-1])
    operands: dict[str, Any] = {
        "a": anchor,
        "b": positive,
        "c": negative,
        "margin": float(margin),
        "eps": float(eps),
        "p": float(p),
    }
    is_square = p == 2
    if is_square:
        del operands["p"]
    return rowwise(
        _TRIPLET[is_square, swap],
        operands,
        dim,
        options._replace(mask=mask),
        share_of(options, counted(mask, anchor.shape[:-1].numel())),
        lambda a, b, c: reference(a, b, c, margin, p, eps, swap),
        lambda: None,
    )


def _require_numbers(margin: float, p: float, eps: float) -> None:
    require_positive(_WHERE, margin=margin)
    require_not_negative(_WHERE, eps=eps)
    if not 1 <= p < math.inf:
        raise refusal(f"p is {p}", where=_WHERE, why="below 1 it is no norm", do="hand over 1 or more; 2 is usual")


def reference(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
) -> Tensor:
    """The loss of every triplet, unfused."""

    def distance(x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = torch.linalg.vector_norm(x - y + eps, p, -1)
        return found

    far = distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return (margin + distance(anchor, positive) - far).clamp_min(0)


class TripletMarginLoss(Loss):
    """``triplet_margin_loss`` as a module.

    >>> import torch
    >>> TripletMarginLoss(margin=0.5)(torch.zeros(1, 4), torch.zeros(1, 4), torch.zeros(1, 4)).item()
    0.5
    """

    coupling = "additive"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_numbers(margin, p, eps)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(
        self,
        anchor: Tensor,
        positive: Tensor,
        negative: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return triplet_margin_loss(
            anchor,
            positive,
            negative,
            self.margin,
            self.p,
            self.eps,
            self.swap,
            self.reduction,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
