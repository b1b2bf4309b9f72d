"""Losses of distributions."""

from functools import partial

from tests.losses.case import Case, drawn, normal, uniform
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.distributions.kl import kl_div


def _soft(*shape: int, dim: int = -1):
    return lambda g, d: uniform(*shape)(g, d).softmax(dim)


def _logarithms(*shape: int):
    return lambda g, d: normal(*shape)(g, d).log_softmax(-1)


def _of_logits(z: Tensor, t: Tensor, dim: int = -1, log_target: bool = False) -> Tensor:
    """The KL divergence of every row, out of F.kl_div."""
    return F.kl_div(z.log_softmax(dim), t, reduction="none", log_target=log_target).sum(dim)


CASES = [
    Case("kl", kl_div, lambda x, t: F.kl_div(x, t, reduction="none").mean(),
         drawn(_logarithms(5, 6), _soft(5, 6)), wanted=2),
    Case("kl, log target, batchmean", partial(kl_div, reduction="batchmean", log_target=True),
         partial(F.kl_div, reduction="batchmean", log_target=True),
         drawn(_logarithms(5, 6), _logarithms(5, 6)), wanted=2),
    Case("kl of logits, many classes", partial(kl_div, reduction="batchmean", from_logits=True),
         lambda z, t: _of_logits(z, t).mean(), drawn(normal(5, 40), _soft(5, 40)), wanted=2),
    Case("kl of logits, image, masked, none",
         lambda z, t: kl_div(z, t, "none", from_logits=True, dim=1, mask=t.detach()[:, 0] > 0.25),
         lambda z, t: _of_logits(z, t, 1) * (t.detach()[:, 0] > 0.25),
         drawn(normal(2, 4, 3, 5), _soft(2, 4, 3, 5, dim=1)), wanted=2),
    Case("kl of logits, log target", partial(kl_div, from_logits=True, log_target=True),
         lambda z, s: _of_logits(z, s, log_target=True).mean(), drawn(normal(5, 7), _logarithms(5, 7)), wanted=2),
]  # fmt: skip
