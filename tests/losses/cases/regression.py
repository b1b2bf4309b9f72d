"""Losses of a real prediction and target."""

from functools import partial

from tests.losses.case import Case, drawn, normal, uniform
from torch.nn import functional as F

from gradwright import losses

_PAIR = drawn(normal(6, 7), normal(6, 7))

CASES = [
    Case("huber", losses.huber_loss, F.huber_loss, _PAIR, on_kernels=True),
    Case(
        "huber, delta, sum",
        partial(losses.huber_loss, delta=0.3, reduction="sum"),
        partial(F.huber_loss, delta=0.3, reduction="sum"),
        _PAIR,
    ),
    Case(
        "huber, weighted, none",
        lambda x, y, w: losses.huber_loss(x, y, "none", weight=w),
        lambda x, y, w: F.huber_loss(x, y, "none") * w,
        drawn(normal(6, 7), normal(6, 7), uniform(7)),
        on_kernels=True,
    ),
    Case(
        "huber, masked",
        lambda x, y: losses.huber_loss(x, y, mask=y > 0),
        lambda x, y: F.huber_loss(x[y > 0], y[y > 0]),
        _PAIR,
    ),
    Case("huber, both gradients", losses.huber_loss, F.huber_loss, _PAIR, wanted=2),
]
