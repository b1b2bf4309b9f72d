"""Losses of logits."""

from functools import partial

from tests.losses.case import Case, classes, drawn, normal, uniform
from torch.nn import functional as F

from gradwright import losses

_LONG = drawn(normal(9, 40), classes(40, 9))
_FEW = drawn(normal(33, 5), classes(5, 33))
_IMAGE = drawn(normal(2, 4, 5, 6), classes(4, 2, 5, 6))
_SOFT = drawn(normal(9, 40), lambda g, d: uniform(9, 40)(g, d).softmax(1))
_WEIGHED = drawn(normal(2, 4, 5, 6), classes(4, 2, 5, 6), uniform(4))

CASES = [
    Case("cross entropy, many classes", losses.cross_entropy, F.cross_entropy, _LONG, on_kernels=True),
    Case("cross entropy, few classes", losses.cross_entropy, F.cross_entropy, _FEW),
    Case("cross entropy, image, none", partial(losses.cross_entropy, reduction="none"),
         partial(F.cross_entropy, reduction="none"), _IMAGE, on_kernels=True),
    Case("cross entropy, weighted, smoothed, ignored",
         lambda z, y, w: losses.cross_entropy(z, y, w, ignore_index=2, label_smoothing=0.1),
         lambda z, y, w: F.cross_entropy(z, y, w.to(z.dtype), ignore_index=2, label_smoothing=0.1), _WEIGHED),
    Case("cross entropy, soft targets, smoothed", partial(losses.cross_entropy, label_smoothing=0.2),
         partial(F.cross_entropy, label_smoothing=0.2), _SOFT, wanted=2),
    Case("cross entropy, masked", lambda z, y: losses.cross_entropy(z, y, mask=y != 1),
         lambda z, y: F.cross_entropy(z, y, ignore_index=1), _IMAGE),
    Case("cross entropy, num_items", lambda z, y: losses.cross_entropy(z, y, num_items=100),
         lambda z, y: F.cross_entropy(z, y, reduction="sum") / 100, _LONG),
]  # fmt: skip
