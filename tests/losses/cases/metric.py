"""Losses of points: triplets, and pairs among candidates."""

from functools import partial

import torch
from tests.losses.case import Case, drawn, normal
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.metric.info_nce import info_nce_loss
from gradwright.losses.metric.triplet import triplet_margin_loss

_THREE = drawn(normal(6, 5), normal(6, 5), normal(6, 5))
_LONG = drawn(normal(4, 30), normal(4, 30), normal(4, 30))
_PAIR = drawn(normal(5, 4), normal(5, 4))


def _info_nce(q: Tensor, b: Tensor, temperature: float = 0.07) -> Tensor:
    """In-batch, of cosines, one by one."""
    similarity = F.cosine_similarity(q[:, None], b[None], dim=2) / temperature
    return torch.stack([similarity[i].logsumexp(0) - similarity[i, i] for i in range(len(q))])


def _with_negatives(q: Tensor, b: Tensor, n: Tensor) -> Tensor:
    """Of products; each query's own negatives."""
    logits = torch.cat([(q * b).sum(1, keepdim=True), torch.einsum("nd,nmd->nm", q, n)], 1)
    return logits.logsumexp(1) - logits[:, 0]


CASES = [
    Case("triplet", triplet_margin_loss, F.triplet_margin_loss, _THREE, wanted=3),
    Case("triplet, long, swapped, none", partial(triplet_margin_loss, margin=2.0, swap=True, reduction="none"),
         partial(F.triplet_margin_loss, margin=2.0, swap=True, reduction="none"), _LONG, wanted=3),
    Case("triplet, cubes, masked", lambda a, b, c: triplet_margin_loss(a, b, c, 3.0, 3.0, mask=a.detach()[:, 0] > 0),
         lambda a, b, c: F.triplet_margin_loss(*[x[a.detach()[:, 0] > 0] for x in (a, b, c)], margin=3.0, p=3.0),
         _THREE, wanted=3),
    Case("info nce", info_nce_loss, lambda q, b: _info_nce(q, b).mean(), _PAIR, wanted=2),
    Case("info nce, symmetric, none", partial(info_nce_loss, temperature=0.5, symmetric=True, reduction="none"),
         lambda q, b: (_info_nce(q, b, 0.5) + _info_nce(b, q, 0.5)) / 2, _PAIR, wanted=2),
    Case("info nce, negatives", partial(info_nce_loss, temperature=1.0, normalize=False),
         lambda q, b, n: _with_negatives(q, b, n.expand(5, 6, 4)).mean(),
         drawn(normal(5, 4), normal(5, 4), normal(6, 4)), wanted=3),
    Case("info nce, negatives of each, sum",
         partial(info_nce_loss, temperature=1.0, normalize=False, reduction="sum"),
         lambda q, b, n: _with_negatives(q, b, n).sum(),
         drawn(normal(5, 4), normal(5, 4), normal(5, 6, 4)), wanted=3),
]  # fmt: skip
