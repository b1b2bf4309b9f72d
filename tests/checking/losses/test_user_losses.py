"""Losses as they are written by hand, some of which look suspicious: none is rejected."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradwright as gw


def dice(p, t):
    return 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)


def dice_eps(p, t):
    return 1 - (2 * (p * t).sum() + 1e-06) / (p.sum() + t.sum() + 1e-06)


def dice_logits(logits, t):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)


def neg_dice(p, t):
    return -(2 * (p * t).sum() + 1e-06) / (p.sum() + t.sum() + 1e-06)


def focal_in(inputs, targets, alpha=0.25, gamma=2.0):
    bce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    pt = torch.exp(-bce)
    return (alpha * (1 - pt) ** gamma * bce).mean()


def focal_tv(inputs, targets, alpha=0.25, gamma=2.0, reduction="none"):
    p = torch.sigmoid(inputs)
    ce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    pt = p * targets + (1 - p) * (1 - targets)
    loss = ce * (1 - pt) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "mean":
        loss = loss.mean()
    elif reduction == "sum":
        loss = loss.sum()
    return loss


def focal_ce(logits, target, gamma=2.0):
    lp = F.log_softmax(logits, -1)
    lpt = lp.gather(1, target[:, None]).squeeze(1)
    pt = lpt.exp()
    return (-((1 - pt) ** gamma) * lpt).mean()


def logcosh(p, t):
    e = p - t
    return (e + F.softplus(-2 * e) - math.log(2)).mean()


def quantile(p, t, q=0.3):
    e = t - p
    return torch.maximum(q * e, (q - 1) * e).mean()


class DiceLoss(nn.Module):
    def __init__(self, mode="binary", smooth=0.0, eps=1e-07, from_logits=True):
        super().__init__()
        self.smooth, self.eps, self.from_logits = (smooth, eps, from_logits)

    def forward(self, y_pred, y_true):
        assert y_true.size(0) == y_pred.size(0)
        if self.from_logits:
            y_pred = F.logsigmoid(y_pred).exp()
        bs = y_true.size(0)
        y_true = y_true.view(bs, 1, -1)
        y_pred = y_pred.view(bs, 1, -1)
        inter = (y_pred * y_true).sum((0, 2))
        card = (y_pred + y_true).sum((0, 2))
        score = (2 * inter + self.smooth) / (card + self.smooth).clamp_min(self.eps)
        loss = 1 - score
        mask = y_true.sum((0, 2)) > 0
        loss = loss * mask.to(loss.dtype)
        return loss.mean()


def wgan(fake, real):
    return fake.mean() - real.mean()


def infonce(z1, z2, tau=0.1):
    z1 = F.normalize(z1, dim=1)
    z2 = F.normalize(z2, dim=1)
    scores = z1 @ z2.T / tau
    return F.cross_entropy(scores, torch.arange(len(scores)))


def ppo(new, old, adv, eps=0.2):
    r = (new - old).exp()
    return -torch.minimum(r * adv, r.clamp(1 - eps, 1 + eps) * adv).mean()


def reinforce(logp, reward):
    return -(logp * reward).mean()


def rmse_eps(p, t):
    return torch.sqrt(((p - t) ** 2).mean() + 1e-08)


def charb(p, t, eps=0.001):
    return torch.sqrt((p - t) ** 2 + eps**2).mean()


def mape(p, t):
    return ((p - t).abs() / t.abs()).mean()


def msle(p, t):
    return ((torch.log1p(p) - torch.log1p(t)) ** 2).mean()


def cosine(p, t):
    return 1 - F.cosine_similarity(p, t, dim=-1).mean()


def pearson(p, t):
    p = p - p.mean()
    t = t - t.mean()
    return 1 - (p * t).sum() / (p.norm() * t.norm() + 1e-08)


def r2(p, t):
    return ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()


def gnll_fixed(p, t):
    return -torch.distributions.Normal(p, torch.tensor(0.7).to(p)).log_prob(t).mean()


def studentt(p, t):
    return -torch.distributions.StudentT(3.0, p, 1.0).log_prob(t).mean()


def gm(p, t):
    e2 = (p - t) ** 2
    return (e2 / (1 + e2)).mean()


def welsch(p, t):
    return (1 - torch.exp(-((p - t) ** 2))).mean()


def tukey(p, t, c=4.685):
    e = (p - t).abs()
    return torch.where(e < c, c**2 / 6 * (1 - (1 - (e / c) ** 2) ** 3), torch.full_like(e, c**2 / 6)).mean()


def cauchy(p, t):
    return torch.log1p((p - t) ** 2).mean()


def angular(p, t):
    return (1 - torch.cos(p - t)).mean()


def epsins(p, t):
    return F.relu((p - t).abs() - 0.1).mean()


def sqhinge(p, y):
    return F.relu(1 - y * p).pow(2).mean()


def hinge(p, y):
    return F.relu(1 - y * p).mean()


def ls_ce(logits, t, e=0.1):
    lp = logits.log_softmax(-1)
    return ((1 - e) * -lp.gather(1, t[:, None]).squeeze(1) + e * -lp.mean(-1)).mean()


def kd(s, t, heat=2.0):
    return F.kl_div(F.log_softmax(s / heat, 1), F.softmax(t / heat, 1), reduction="batchmean") * heat**2


def js(p, q):
    p, q = (p.softmax(-1), q.softmax(-1))
    m = (p + q) / 2
    return 0.5 * ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)).mean()


def huber_where(prediction, target, limit=1.0):
    gap = (prediction - target).abs()
    return torch.where(gap > limit, limit * gap - limit**2 / 2, gap.square() / 2).mean()


def huber_mask(prediction, target, limit=1.0):
    gap = (prediction - target).abs()
    inside = gap <= limit
    outside = 1 - inside.float()
    return ((limit * gap - limit**2 / 2) * outside + inside * gap.square() / 2).mean()


def wing(p, t, w=10.0, eps=2.0):
    c = w * (1 - math.log(1 + w / eps))
    e = (p - t).abs()
    return torch.where(e < w, w * torch.log1p(e / eps), e - c).mean()


def iou(p, t):
    i = (p * t).sum()
    return 1 - (i + 1e-06) / (p.sum() + t.sum() - i + 1e-06)


def bce_eps(p, t):
    return -(t * torch.log(p + 1e-08) + (1 - t) * torch.log(1 - p + 1e-08)).mean()


def bce_clamp(p, t):
    p = p.clamp(1e-07, 1 - 1e-07)
    return -(t * p.log() + (1 - t) * (1 - p).log()).mean()


def nll_prob(p, t):
    return -torch.log(p[torch.arange(len(t)), t].clamp(min=1e-09)).mean()


def ce_hand(logits, t):
    return -logits.log_softmax(1)[torch.arange(len(t)), t].mean()


def brier(logits, t):
    return ((logits.softmax(1) - F.one_hot(t, logits.shape[1])) ** 2).sum(1).mean()


def masked_mse(p, t, mask):
    return ((p - t) ** 2 * mask).sum() / mask.sum().clamp(min=1)


def mse_weighted(p, t, weight=None):
    loss = (p - t) ** 2
    return (loss if weight is None else loss * weight).mean()


def asl(x, y, gn=4.0, gp=1.0, clip=0.05):
    p = torch.sigmoid(x)
    pn = (1 - p + clip).clamp(max=1)
    los = y * torch.log(p.clamp(min=1e-08)) + (1 - y) * torch.log(pn.clamp(min=1e-08))
    pt = p * y + pn * (1 - y)
    return -(los * (1 - pt) ** (gp * y + gn * (1 - y))).mean()


def linex(p, t):
    e = p - t
    return (torch.exp(e) - e - 1).mean()


def poly1(logits, t):
    ce = F.cross_entropy(logits, t, reduction="none")
    pt = F.softmax(logits, 1).gather(1, t[:, None]).squeeze(1)
    return (ce + 1 - pt).mean()


def bradley(chosen, rejected):
    return -F.logsigmoid(chosen - rejected).mean()


def gradpen(p, t):
    return ((p - t).diff(dim=-1) ** 2).mean() + F.l1_loss(p, t)


def asym(p, t):
    e = p - t
    return torch.where(e > 0, 2 * e**2, e**2).mean()


def barlow(a, b):
    a = (a - a.mean(0)) / a.std(0)
    b = (b - b.mean(0)) / b.std(0)
    c = a.T @ b / len(a)
    return (torch.diagonal(c) - 1).pow(2).sum() + 0.005 * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


def keras_bce(y_true, y_pred):
    y_pred = y_pred.clamp(1e-07, 1 - 1e-07)
    return -(y_true * y_pred.log() + (1 - y_true) * (1 - y_pred).log()).mean()


def lovasz_hinge(logits, labels):
    logits, labels = (logits.reshape(-1), labels.reshape(-1))
    s = 2 * labels - 1
    err = 1 - logits * s
    err, perm = torch.sort(err, descending=True)
    gt = labels[perm]
    g = gt.sum()
    i = g - gt.cumsum(0)
    u = g + (1 - gt).cumsum(0)
    j = 1 - i / u
    j = torch.cat([j[:1], j[1:] - j[:-1]])
    return (F.relu(err) * j).sum()


class Uncert(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.zeros(()))

    def forward(self, p, t):
        return ((p - t) ** 2).mean() * torch.exp(-self.s) + self.s


def contrastive(x1, x2, y, m=1.0):
    d = F.pairwise_distance(x1, x2)
    return (y * d**2 + (1 - y) * F.relu(m - d) ** 2).mean()


def hinge_gan(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def peak_signal_to_noise(p, t):
    return 10 * torch.log10(((p - t) ** 2).mean())


def with_weight_penalty(p, t):
    return F.mse_loss(p, t) + 1e-3 * p.pow(2).mean()


def structural_similarity(x, y):
    mx, my = F.avg_pool2d(x, 3, 1), F.avg_pool2d(y, 3, 1)
    vx, vy = F.avg_pool2d(x * x, 3, 1) - mx**2, F.avg_pool2d(y * y, 3, 1) - my**2
    c = F.avg_pool2d(x * y, 3, 1) - mx * my
    return 1 - ((2 * mx * my + 1e-4) * (2 * c + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))).mean()


def scale_invariant_noise(est, ref):
    est, ref = est - est.mean(-1, keepdim=True), ref - ref.mean(-1, keepdim=True)
    s = (est * ref).sum(-1, keepdim=True) * ref / (ref.pow(2).sum(-1, keepdim=True) + 1e-8)
    return -10 * torch.log10(s.pow(2).sum(-1) / ((est - s).pow(2).sum(-1) + 1e-8) + 1e-8).mean()


def many_classes_dice(logits, target):
    p = logits.softmax(1)
    hot = F.one_hot(target, logits.shape[1]).movedim(-1, 1).to(p)
    axes = (0, *range(2, p.ndim))
    return 1 - ((2 * (p * hot).sum(axes) + 1e-5) / (p.sum(axes) + hot.sum(axes) + 1e-5)).mean()


def smoothed_labels(pred, target, e=0.1):
    return F.binary_cross_entropy_with_logits(pred, target * (1 - e) + e / 2)


def cosface(logits, labels, s=30.0, m=0.35):
    return F.cross_entropy(s * (logits - m * F.one_hot(labels, logits.shape[1])), labels)


def maximum_mean_discrepancy(x, y):
    def kernel(a, b):
        return torch.exp(-(torch.cdist(a, b) ** 2) / 2).mean()

    return kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)


def cox(risk, time):
    ordered = risk[torch.argsort(time, descending=True)]
    return -(ordered - torch.logcumsumexp(ordered, 0)).mean()


LOSSES = {
    name: loss() if isinstance(loss, type) else loss
    for name, loss in vars().copy().items()
    if getattr(loss, "__module__", "") == __name__
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_right_loss_is_not_rejected(loss):
    report = gw.check_loss(loss)
    assert report.ok, str(report)


def test_a_contrast_with_its_labels_is_not_rejected():
    y = torch.tensor([1.0, 0, 1, 0, 1, 0])
    assert gw.check_loss(contrastive, torch.randn(6, 4), torch.randn(6, 4), y).ok
