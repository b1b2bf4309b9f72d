"""Losses of hidden states and a vocabulary."""

from functools import partial

from tests.losses.case import Case, classes, drawn, normal, uniform
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.language.linear_cross_entropy import linear_cross_entropy

_PLAIN = drawn(normal(6, 5), normal(30, 5, scale=1.0), classes(30, 6))
_BIASED = drawn(normal(6, 5), normal(8, 5, scale=1.0), normal(8), classes(8, 6), uniform(8))


def _unfused(x: Tensor, w: Tensor, b: Tensor, y: Tensor, v: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, w, b), y, v.to(x.dtype), ignore_index=2, label_smoothing=0.1)


CASES = [
    Case("linear cross entropy", linear_cross_entropy, lambda x, w, y: F.cross_entropy(F.linear(x, w), y),
         _PLAIN, wanted=2),
    Case("linear cross entropy, none", partial(linear_cross_entropy, reduction="none"),
         lambda x, w, y: F.cross_entropy(F.linear(x, w), y, reduction="none"), _PLAIN, wanted=2),
    Case("linear cross entropy, bias, weighted, smoothed, ignored",
         lambda x, w, b, y, v: linear_cross_entropy(
             x, w, y, linear_bias=b, weight=v, ignore_index=2, label_smoothing=0.1), _unfused, _BIASED, wanted=3),
    Case("linear cross entropy, masked", lambda x, w, y: linear_cross_entropy(x, w, y, mask=y % 3 != 0),
         lambda x, w, y: F.cross_entropy(F.linear(x, w)[y % 3 != 0], y[y % 3 != 0]), _PLAIN, wanted=2),
]  # fmt: skip
