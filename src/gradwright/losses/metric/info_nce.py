"""InfoNCE: each query is to find its positive among all candidates.

With queries q_i, positives b_j and the temperature T (``normalize``: each divided by its length first),

    z_ij = q_i b_j / T,      l_i = -log softmax(z_i)_i          (in-batch: the other positives are the negatives)
    z_i = (q_i b_i, q_i n_1, ..., q_i n_M) / T,   l_i = -log softmax(z_i)_0     (with negatives n)
    ``symmetric``: the mean of l_i over the rows of z and over its columns, as CLIP has it

The slope by the logits, softmax less one-hot, is ``cross_entropy``'s; products and lengths are torch's. They are of
float32 at least, under autocast, too: rounded to bfloat16, a logit of 14 (T = 0.07) would be off by up to 0.03.

van den Oord et al. 2018, arXiv:1807.03748, equation 4; symmetric: Radford et al. 2021, arXiv:2103.00020, figure 3.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.classification.cross_entropy import cross_entropy
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_values_to_be_read,
    options_of,
    require_positive,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss
from gradwright.losses.common.plans import tell_also
from gradwright.losses.common.precision import dtype_of_value, widened

_WHERE = "info_nce_loss(query, positive)"


def info_nce_loss(
    query: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    temperature: float | Tensor = 0.07,
    symmetric: bool = False,
    normalize: bool = True,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """Cross entropy of the similarities query . candidate / temperature, the query's own positive being its class.

    Shapes: ``query`` and ``positive`` [N, D]; ``negatives`` [M, D], the same for all queries, or [N, M, D]; without
    them the positives of the other queries are the negatives. ``temperature``: a number, or a tensor without axes (it
    gets a gradient). ``symmetric``: the mean of both directions, of a batch without ``negatives``. ``normalize``: by
    cosines. ``mask`` (bool) [N]: which pairs count; the others are nobody's negatives, either. Result: a scalar; [N]
    with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    Units: nats. Dtype: torch's promotion; computed in float32 at least, under autocast, too.
    Coupling: batch. Cost: a product N D N (or N D M) and its two gradients; N x N logits and their gradient are kept.
    Raises: UsageError for shapes that do not fit, a temperature that is not above 0, symmetry with negatives.

    >>> import torch
    >>> x = torch.eye(3)
    >>> info_nce_loss(x, x, temperature=1.0).item()  # log(e + 2) - 1
    0.551444...
    """
    options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, query=query, positive=positive)
    require_same_shape(_WHERE, query=query, positive=positive)
    if query.ndim != 2:
        raise refusal(f"query is {told(query)}", where=_WHERE, do="hand over one vector for each query: [N, D]")
    _require_negatives(query, negatives, symmetric)
    _require_temperature(temperature)
    if mask is not None:
        require_broadcast(_WHERE, "mask", mask, query.select(1, 0) if query.shape[1] else query.sum(1))
        mask = mask.expand(query.shape[:1])
    tensors = [each for each in (query, positive, negatives) if each is not None]
    dtype = tensors[0].dtype
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.dtype)
    if reduction != "none":
        dtype = dtype_of_value(dtype)
    tell_also("vectors' lengths, and the product of queries and candidates" if normalize else "the product")
    with torch.autocast(query.device.type, enabled=False):
        logits, target = _logits(query, positive, negatives, temperature, normalize, mask)
    loss = cross_entropy(logits, target, reduction=reduction, mask=mask, num_items=num_items, empty=empty)
    if symmetric and len(query):
        other = cross_entropy(logits.T, target, reduction=reduction, mask=mask, num_items=num_items, empty=empty)
        loss = (loss + other) / 2
    return loss.to(dtype)


def _require_negatives(query: Tensor, negatives: Tensor | None, symmetric: bool) -> None:
    if negatives is None:
        return
    require_real(_WHERE, negatives=negatives)
    count, length = query.shape
    if negatives.ndim < 2 or negatives.shape[-1] != length or negatives.shape[:-2] not in ((), (count,)):
        raise refusal(
            f"negatives has shape {list(negatives.shape)}, query {list(query.shape)}",
            where=_WHERE,
            do=f"hand over [M, {length}], the same for all queries, or [{count}, M, {length}]",
        )
    if symmetric:
        raise refusal(
            "symmetric=True, and negatives are given",
            where=_WHERE,
            why="the other direction, from a positive to its query, has no negatives",
            do="leave one of them out",
        )


def _require_temperature(temperature: float | Tensor) -> None:
    if isinstance(temperature, Tensor):
        if temperature.ndim or not temperature.is_floating_point():
            raise refusal(f"temperature is {told(temperature)}", where=_WHERE, do="hand over one real number")
        if not are_values_to_be_read([temperature]):
            return
        temperature = temperature.item()
    require_positive(_WHERE, temperature=temperature)


def _logits(
    query: Tensor,
    positive: Tensor,
    negatives: Tensor | None,
    temperature: float | Tensor,
    normalize: bool,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Similarities, and each row's class."""

    def ready(vectors: Tensor) -> Tensor:
        return F.normalize(widened(vectors), dim=-1) if normalize else widened(vectors)

    if mask is not None:  # before the product, so that no NaN of a pair that does not count reaches another
        query = torch.where(mask[:, None], query, 0.0)
        positive = torch.where(mask[:, None], positive, 0.0)
    q, b = ready(query), ready(positive)
    if b.dtype != q.dtype:
        wide = torch.promote_types(q.dtype, b.dtype)
        q, b = q.to(wide), b.to(wide)
    scaled = q / temperature
    count = len(q)
    if negatives is None and count:
        logits = scaled @ b.T
        if mask is not None:
            logits = torch.where(mask[:, None] & mask, logits, -torch.inf)
        return logits, torch.arange(count, device=query.device)
    own = (scaled * b).sum(1, keepdim=True)
    if negatives is None:  # of no query: a cross entropy has a class, still
        return own, torch.arange(0, device=query.device)
    n = ready(negatives).to(q.dtype)
    others = scaled @ n.T if n.ndim == 2 else (n @ scaled.unsqueeze(2)).squeeze(2)
    return torch.cat([own, others], 1), torch.zeros(count, dtype=torch.int64, device=query.device)


def reference(
    query: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    temperature: float | Tensor = 0.07,
    symmetric: bool = False,
    normalize: bool = True,
) -> Tensor:
    """The loss of every query, unfused."""
    logits, target = _logits(query, positive, negatives, temperature, normalize, None)
    loss = F.cross_entropy(logits, target, reduction="none")
    return (loss + F.cross_entropy(logits.T, target, reduction="none")) / 2 if symmetric else loss


class InfoNCELoss(Loss):
    """``info_nce_loss`` as a module.

    >>> import torch
    >>> loss = InfoNCELoss(temperature=1.0, symmetric=True)
    >>> loss(torch.eye(3), torch.eye(3)).item(), loss.coupling
    (0.551444..., 'batch')
    """

    coupling = "batch"

    def __init__(
        self,
        temperature: float = 0.07,
        symmetric: bool = False,
        normalize: bool = True,
        reduction: Reduction = "mean",
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_positive(_WHERE, temperature=temperature)
        self.temperature = temperature
        self.symmetric = symmetric
        self.normalize = normalize
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(
        self,
        query: Tensor,
        positive: Tensor,
        negatives: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return info_nce_loss(
            query,
            positive,
            negatives,
            self.temperature,
            self.symmetric,
            self.normalize,
            self.reduction,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
