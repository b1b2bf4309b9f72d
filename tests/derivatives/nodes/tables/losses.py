"""Uses of losses that are one node."""

import torch
import torch.nn.functional as F
from tests.derivatives.nodes.judge import Case, given

SIDES = (given(4, 3, graph=False) > 0).double()
CHANCES = given(4, 3, graph=False).sigmoid()
CLASSES = torch.tensor([0, 2, 1, 0])
SOME = torch.tensor([0, -100, 1, 0])
WEIGHT = given(3, positive=True, graph=False)
IMAGE = torch.tensor([[0, 2], [1, 1]])
EACH = {0: 0, 1: 1}

CASES = [
    Case("mse", lambda z: F.mse_loss(z, given(4, 3), reduction="none"), (4, 3), EACH),
    Case("mse-target", lambda z: F.mse_loss(given(4, 3), z, reduction="none"), (4, 3), EACH),
    Case("mse-both", lambda z: F.mse_loss(z[:, :2], z[:, 1:], reduction="none"), (4, 3), {0: 0}),
    Case("mse-mean", lambda z: F.mse_loss(z, given(4, 3)), (4, 3), push=0),
    Case("smooth-l1", lambda z: F.smooth_l1_loss(z, given(4, 3), reduction="none", beta=0.7), (4, 3), EACH),
    Case("smooth-l1-sharp", lambda z: F.smooth_l1_loss(z, given(4, 3), reduction="none", beta=1e-9), (4, 3), EACH),
    Case("huber", lambda z: F.huber_loss(z, given(4, 3), reduction="none", delta=0.7), (4, 3), EACH),
    Case("huber-both", lambda z: F.huber_loss(z[:, :2], z[:, 1:], reduction="none"), (4, 3), {0: 0}),
    Case("bce", lambda z: F.binary_cross_entropy(z.sigmoid(), CHANCES, reduction="none"), (4, 3), EACH),
    Case("bce-weight", lambda z: F.binary_cross_entropy(z.sigmoid(), CHANCES, WEIGHT, reduction="none"), (4, 3), EACH),
    Case(
        "bce-target",
        lambda z: F.binary_cross_entropy(CHANCES, z.sigmoid(), reduction="none"),
        (4, 3),
        EACH,
        push=0,
    ),
    Case("bce-sum", lambda z: F.binary_cross_entropy(z.sigmoid(), CHANCES, reduction="sum"), (4, 3), push=0),
    Case("logits", lambda z: F.binary_cross_entropy_with_logits(z, CHANCES, reduction="none"), (4, 3), EACH),
    Case(
        "logits-weights",
        lambda z: F.binary_cross_entropy_with_logits(z, CHANCES, WEIGHT, reduction="none", pos_weight=WEIGHT),
        (4, 3),
        EACH,
    ),
    Case("soft-margin", lambda z: F.soft_margin_loss(z, 2 * SIDES - 1, reduction="none"), (4, 3), EACH),
    Case("soft-margin-mean", lambda z: F.soft_margin_loss(z, 2 * SIDES - 1), (4, 3), push=0),
    Case("nll", lambda z: F.nll_loss(z, CLASSES, reduction="none"), (4, 3), {0: 0}, pattern="covers"),
    Case("nll-ignored", lambda z: F.nll_loss(z, SOME, WEIGHT, reduction="none"), (4, 3), {0: 0}, pattern="covers"),
    Case("nll-mean", lambda z: F.nll_loss(z, CLASSES), (4, 3), push=0),
    Case(
        "nll-image",
        lambda z: F.nll_loss(z[..., None], IMAGE[..., None], reduction="none"),
        (2, 3, 2),
        {0: 0, 1: 2},
        2,
        "covers",
    ),
]
