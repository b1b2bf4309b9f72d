"""torch's own losses, without and with examples, are never rejected."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradwright as gw

GENERATOR = torch.Generator().manual_seed(5)
SIGNS = 1.0 - 2.0 * (torch.arange(6) % 2)
LABELS = torch.tensor([0, 1, 3, 2, 1, 0, 2])
BITS = torch.tensor([0.0, 1, 1, 0, 1, 0])


def randn(*shape):
    return torch.randn(shape, generator=GENERATOR)


def rand(*shape):
    return torch.rand(shape, generator=GENERATOR)


FUNCTIONS = [
    F.mse_loss, F.l1_loss, F.huber_loss, F.smooth_l1_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits,
    F.cross_entropy, F.nll_loss, F.kl_div, F.gaussian_nll_loss, F.poisson_nll_loss, F.hinge_embedding_loss,
    F.margin_ranking_loss, F.cosine_embedding_loss, F.triplet_margin_loss, F.triplet_margin_with_distance_loss,
    F.multi_margin_loss, F.soft_margin_loss, F.multilabel_soft_margin_loss,
]  # fmt: skip


@pytest.mark.parametrize("loss", FUNCTIONS, ids=lambda loss: loss.__name__)
def test_functions_without_an_example(loss):
    assert gw.check_loss(loss).ok


OPTIONS = {
    "huber, delta": functools.partial(F.huber_loss, delta=2.5),
    "label smoothing": functools.partial(F.cross_entropy, label_smoothing=0.1),
    "weights": functools.partial(F.cross_entropy, weight=torch.tensor([1.0, 2.0, 0.5])),
    "pos_weight": functools.partial(F.binary_cross_entropy_with_logits, pos_weight=torch.tensor(3.0)),
    "summed": nn.HuberLoss(reduction="sum"),
    "unreduced": nn.MSELoss(reduction="none"),
    "module with weights": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])),
    "batchmean": nn.KLDivLoss(reduction="batchmean"),
    "nll": nn.NLLLoss(),
    "bce": nn.BCELoss(),
    "poisson": nn.PoissonNLLLoss(),
    "squared margin": nn.MultiMarginLoss(p=2),
}


@pytest.mark.parametrize("loss", OPTIONS.values(), ids=OPTIONS.keys())
def test_options_and_modules(loss):
    assert gw.check_loss(loss).ok


EXAMPLES = [
    (F.mse_loss, randn(5, 2), randn(5, 2)),
    (F.cross_entropy, randn(7, 4), LABELS),
    (F.cross_entropy, randn(7, 4), randn(7, 4).softmax(1)),
    (F.nll_loss, randn(7, 4).log_softmax(1), LABELS),
    (F.binary_cross_entropy, rand(6), BITS),
    (F.binary_cross_entropy, rand(6), rand(6)),
    (F.binary_cross_entropy_with_logits, randn(6), BITS),
    (F.kl_div, randn(7, 4).log_softmax(1), randn(7, 4).softmax(1)),
    (F.gaussian_nll_loss, randn(6), randn(6), 0.1 * rand(6)),
    (F.poisson_nll_loss, randn(6), torch.tensor([0.0, 3, 1, 4, 0, 2])),
    (F.hinge_embedding_loss, rand(6), SIGNS),
    (F.margin_ranking_loss, randn(6), randn(6), SIGNS),
    (functools.partial(F.margin_ranking_loss, margin=0.5), randn(6), randn(6), SIGNS),
    (F.cosine_embedding_loss, randn(6, 4), randn(6, 4), SIGNS),
    (F.triplet_margin_loss, randn(6, 4), randn(6, 4), randn(6, 4)),
    (F.multi_margin_loss, randn(7, 4), LABELS),
    (F.soft_margin_loss, randn(6), SIGNS),
    (F.multilabel_margin_loss, randn(2, 4), torch.tensor([[3, 0, -1, 1], [1, 2, -1, 0]])),
    (F.multilabel_soft_margin_loss, randn(2, 4), torch.tensor([[1.0, 0, 1, 1], [0, 0, 1, 0]])),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: getattr(e[0], "__name__", "partial"))
def test_functions_with_an_example(example):
    assert gw.check_loss(*example).ok


def test_what_torch_itself_does_not_hold_is_information():
    codes = {(f.code, f.severity) for f in gw.check_loss(F.soft_margin_loss).findings}
    assert codes == {("GW502", "info")}  # exp(100) in float32
    codes = {(f.code, f.severity) for f in gw.check_loss(F.cross_entropy).findings}
    assert codes == {("GW507", "info")}  # 0/0 where every label is the ignored one
