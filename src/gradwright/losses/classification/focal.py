"""The focal loss of logits z against a class y: rows that are predicted well count for less.

With m = max_k z_k, the part of the other classes r = sum_{k != y} exp(z_k - m), that of its own e = exp(z_y - m),
softmax p_k, q = 1 - p_y and the class weights alpha_k,

    q = r / (r + e),     u = -log p_y = log(1 + r/e),     l = alpha_y q^gamma u
    dl/du = alpha_y q^gamma (1 + gamma p_y u/q),          du/dz_k = p_k  (k != y),    -q  (k = y)

r is summed without the class itself, so q and u keep their relative accuracy as p_y nears 1: u = log(1 + r) where z_y
is the largest logit (e = 1). u/q nears 1 there; written so, no power of q below 0 arises, which made NaN of
0 * inf for gamma < 1 (kornia issue 918). With x = z_y - log sum_{k != y} exp z_k this is the binary loss of logit x.

Lin et al. 2017, "Focal Loss for Dense Object Detection", arXiv:1708.02002, equations 4 and 5, of a softmax. A mean is
over the rows that count, as kornia, MONAI and segmentation_models_pytorch have it: alpha is a factor of the loss (the
mean of ``cross_entropy``, as torch's, is divided by its weights).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal
from gradwright.kernels.formula.stages import Axes
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_values_to_be_read,
    options_of,
    refuse_values,
    require_not_negative,
    require_real,
)
from gradwright.losses.common.classes import class_axis, refuse_class, require_classes
from gradwright.losses.common.dividing import share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.rowwise import Formulas, RowLoss, rowwise

_WHERE = "focal_loss(input, target)"
_TINY = 1e-30  # below which u/q is 1 to the last bit


def _of(is_weighted: bool) -> RowLoss:
    alpha = "alpha_y * " if is_weighted else ""
    e, q = "exp(zy)", "(r / (r + exp(zy)))"
    u = f"where(zy == 0, log1p(r), log(r + {e}) - zy)"
    factor = f"{alpha}pow({q}, gamma)"
    # 0 * inf, of a class of its own that is impossible, is 0.
    slope = f"{factor} * (1 + where({e} == 0, 0, gamma * ({e} / (r + {e})) * where({q} < {_TINY}, 1, {u} / {q})))"
    stages = {
        "m": "max: z",
        "r": "sum: where(k == y, 0, exp(z - m))",
        "zy": "at y: z - m",
        # A kernel of short rows has room for few stages: these share what they are made of without one.
        "loss": f"row: {factor} * ({u})",
        "own": f"row: -g * {q} * {slope}",
        "others": f"row: g * {slope} / (r + {e})",
    }
    inputs: dict[str, Axes] = {
        "z": "element",
        "y": "row",
        "gamma": "number",
        "ignored": "number",
        "classes": "number",
    }
    if is_weighted:
        inputs["alpha"] = "class"
        stages = {"alpha_y": "at y: alpha", **stages}
    return RowLoss(
        Formulas(
            inputs,
            stages,
            "where(y == ignored, 0, loss)",
            {"z": "where(y == ignored, 0, where(k == y, own, others * exp(z - m)))"},
            "where(y != ignored and (y < 0 or y >= classes), 1, 0)",
        )
    )


_FOCAL = {is_weighted: _of(is_weighted) for is_weighted in (False, True)}


def focal_loss(
    input: Tensor,
    target: Tensor,
    alpha: Tensor | None = None,
    gamma: float = 2.0,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """(1 - p)^gamma times the cross entropy -log p, p = softmax(input) at the target's class.

    Shapes: ``input`` logits [N, C, *] or [C]; ``target`` class numbers [N, *] or [] (integers); ``alpha`` [C]: a factor
    for each class; ``mask`` (bool) broadcast to [N, *]. ``gamma``: any number from 0 on; 0 is cross entropy. Rows of
    class ``ignore_index`` do not count. Result: a scalar; [N, *] with ``reduction="none"``. A mean is divided by the
    number of rows that count, or by ``num_items``. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: nats. Dtype: that of ``input``, float32 under autocast; computed in float32 at least.
    Coupling: additive. Cost: one pass: the logits read, their gradient written: 8 bytes a logit in float32.
    Raises: UsageError for shapes that do not fit, a class there is none of, a negative factor or gamma.

    >>> import torch
    >>> logits = torch.tensor([[0.0, 0.0], [1e4, 0.0]], requires_grad=True)
    >>> focal_loss(logits, torch.tensor([0, 0]), gamma=0.5, reduction="sum").backward()
    >>> logits.grad.tolist()
    [[-0.476085..., 0.476085...], [-0.0, 0.0]]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input)
    dim = class_axis(_WHERE, input)
    classes = input.shape[dim]
    _require_gamma(gamma)
    require_classes(_WHERE, input, target, dim)
    operands: dict[str, Any] = {
        "z": input,
        "y": target,
        "gamma": float(gamma),
        "ignored": float(ignore_index),
        "classes": float(classes),
    }
    if alpha is not None:
        _require_alpha(alpha, classes)
        operands["alpha"] = alpha
    if mask is not None:
        require_broadcast(_WHERE, "mask", mask, target)
        mask = mask.expand(target.shape)

    def count() -> Tensor:
        counts = target != ignore_index
        return torch.count_nonzero(counts if mask is None else counts & mask)

    return rowwise(
        _FOCAL[alpha is not None],
        operands,
        dim,
        options._replace(mask=mask),
        share_of(options, count() if options.reduction == "mean" and options.num_items is None else 0),
        lambda z: reference(z, target, alpha, gamma, ignore_index),
        lambda: refuse_class(_WHERE, target, classes, ignore_index, mask),
    )


def _require_gamma(gamma: float) -> None:
    require_not_negative(_WHERE, gamma=gamma)
    if gamma == float("inf"):
        raise refusal("gamma is inf", where=_WHERE, do="hand over a number from 0 on; 2 is usual")


def _require_alpha(alpha: object, classes: int) -> None:
    if not isinstance(alpha, Tensor) or not alpha.is_floating_point() or alpha.shape != (classes,):
        told = f"has shape {list(alpha.shape)}" if isinstance(alpha, Tensor) else f"is {alpha!r}"
        raise refusal(
            f"alpha {told}, and there are {classes} classes",
            where=_WHERE,
            why="alpha is a factor for each class; one for all would be a factor of the loss",
            do=f"hand over a tensor of real numbers, shape [{classes}]",
        )
    if are_values_to_be_read([alpha]):
        values = alpha.detach()
        refuse_values(_WHERE, {"alpha": ("is negative or NaN", values, ~(values >= 0), "a factor is 0 or more")})


def reference(
    input: Tensor,
    target: Tensor,
    alpha: Tensor | None = None,
    gamma: float = 2.0,
    ignore_index: int = -100,
) -> Tensor:
    """The loss of every row, unfused: the binary loss of x = z_y - log sum_{k != y} exp z_k."""
    dim = min(1, input.ndim - 1)
    counts = target != ignore_index
    y = torch.where(counts, target, 0).long()
    own = input.gather(dim, y.unsqueeze(dim)).squeeze(dim)
    if input.shape[dim] == 1:
        loss = 0.0 * own
    else:
        is_own = torch.zeros_like(input, dtype=torch.bool).scatter(dim, y.unsqueeze(dim), True)
        x = own - torch.where(is_own, -torch.inf, input).logsumexp(dim)
        loss = (gamma * F.logsigmoid(-x)).exp() * -F.logsigmoid(x)
    if alpha is not None:
        loss = alpha.to(loss.dtype)[y] * loss
    return torch.where(counts, loss, 0.0)


class FocalLoss(Loss):
    """``focal_loss`` as a module.

    >>> import torch
    >>> FocalLoss(gamma=0.0)(torch.zeros(2, 4), torch.tensor([0, 3])).item()
    1.386294...
    """

    coupling = "additive"
    alpha: Tensor | None

    def __init__(
        self,
        alpha: Tensor | None = None,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_gamma(gamma)
        self.register_buffer("alpha", alpha)
        self.gamma = gamma
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return focal_loss(
            input,
            target,
            self.alpha,
            self.gamma,
            self.reduction,
            self.ignore_index,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
