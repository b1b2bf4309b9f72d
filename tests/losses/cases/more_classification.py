"""Binary cross entropy and the focal losses, as torch, torchvision and the paper have them."""

from functools import partial

import torch
from tests.losses.case import Case, classes, drawn, normal, uniform, yes_or_no
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.classification.binary_cross_entropy import binary_cross_entropy_with_logits as bce
from gradwright.losses.classification.binary_focal import binary_focal_loss
from gradwright.losses.classification.focal import focal_loss

_BINARY = drawn(normal(6, 7), yes_or_no(6, 7))
_CLASSES = drawn(normal(9, 5), classes(5, 9))
_IMAGE = drawn(normal(2, 4, 3, 5), classes(4, 2, 3, 5), uniform(4))
_LONG = drawn(normal(5, 40), classes(40, 5))


def _torchvision(x: Tensor, t: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """``sigmoid_focal_loss`` of torchvision 0.25, word for word."""
    p = torch.sigmoid(x)
    ce_loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    p_t = p * t + (1 - p) * (1 - t)
    loss = ce_loss * ((1 - p_t) ** gamma)
    if alpha >= 0:
        alpha_t = alpha * t + (1 - alpha) * (1 - t)
        loss = alpha_t * loss
    return loss


def _focal(z: Tensor, y: Tensor, alpha: Tensor | None = None, gamma: float = 2.0) -> Tensor:
    """FL(p_t) = -alpha_t (1 - p_t)^gamma log(p_t): equation 5 of the paper, of a softmax."""
    log_p = z.log_softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    loss = -((1 - log_p.exp()) ** gamma) * log_p
    return loss if alpha is None else alpha[y] * loss


CASES = [
    Case("bce", bce, F.binary_cross_entropy_with_logits, _BINARY),
    Case("bce, weights, smoothed, none",
         lambda x, t, w, v: bce(x, t, w, "none", v, label_smoothing=0.2),
         lambda x, t, w, v: F.binary_cross_entropy_with_logits(x, 0.8 * t + 0.1, w, pos_weight=v, reduction="none"),
         drawn(normal(6, 7), yes_or_no(6, 7), uniform(6, 1), uniform(7))),
    Case("bce, soft labels, both gradients, masked", lambda x, t: bce(x, t, mask=x.detach() > 0),
         lambda x, t: F.binary_cross_entropy_with_logits(x[x > 0], t[x > 0]),
         drawn(normal(6, 7), uniform(6, 7)), wanted=2),
    Case("bce, ignored", lambda x, y: bce(x, y, ignore_index=2),
         lambda x, y: F.binary_cross_entropy_with_logits(x[y != 2], y[y != 2].to(x.dtype)),
         drawn(normal(6, 7), classes(3, 6, 7))),
    Case("binary focal, both gradients", binary_focal_loss, lambda x, t: _torchvision(x, t).mean(), _BINARY, wanted=2),
    Case("binary focal, soft labels, gamma 1.5, none",
         partial(binary_focal_loss, alpha=None, gamma=1.5, reduction="none"),
         partial(_torchvision, alpha=-1, gamma=1.5), drawn(normal(6, 7), uniform(6, 7))),
    Case("binary focal, gamma 0.5, num_items", partial(binary_focal_loss, gamma=0.5, num_items=17),
         lambda x, t: _torchvision(x, t, gamma=0.5).sum() / 17, _BINARY),
    Case("focal", focal_loss, lambda z, y: _focal(z, y).mean(), _CLASSES),
    Case("focal, many classes, gamma 0", partial(focal_loss, gamma=0), F.cross_entropy, _LONG),
    Case("focal, image, alpha, gamma 0.5, none",
         lambda z, y, w: focal_loss(z, y, w, 0.5, "none"), lambda z, y, w: _focal(z, y, w, 0.5), _IMAGE),
    Case("focal, ignored, masked", lambda z, y: focal_loss(z, y, ignore_index=1, mask=y > 0),
         lambda z, y: _focal(z, y)[y > 1].mean(), _CLASSES),
]  # fmt: skip
