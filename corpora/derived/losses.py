"""Losses, as they stand in papers and in training scripts."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, bits, fixed, labels, real, rows, square, unit


def mean_squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    return ((prediction - target) ** 2).mean()


def huber(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    error = torch.abs(target - prediction)
    return torch.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta)).mean()


def huber_by_masks(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    error = torch.abs(target - prediction)
    small = error <= delta
    quadratic = 0.5 * error**2 * small
    linear = delta * (error - 0.5 * delta) * ~small
    return (quadratic + linear).mean()


def pseudo_huber(prediction: Tensor, target: Tensor, delta: float = 1.5) -> Tensor:
    return (delta**2 * (torch.sqrt(1 + ((prediction - target) / delta) ** 2) - 1)).mean()


def log_cosh(prediction: Tensor, target: Tensor) -> Tensor:
    error = prediction - target
    return torch.mean(error + F.softplus(-2 * error) - math.log(2.0))


def log_cosh_plain(prediction: Tensor, target: Tensor) -> Tensor:
    return torch.log(torch.cosh(prediction - target)).mean()


def quantile(prediction: Tensor, target: Tensor, q: float = 0.9) -> Tensor:
    error = target - prediction
    return torch.max(q * error, (q - 1) * error).mean()


def expectile(prediction: Tensor, target: Tensor, tau: float = 0.7) -> Tensor:
    error = target - prediction
    weight = torch.where(error > 0, tau, 1 - tau)
    return (weight * error**2).mean()


def bce_from_logits(logits: Tensor, target: Tensor) -> Tensor:
    return (logits.clamp(min=0) - logits * target + torch.log1p(torch.exp(-logits.abs()))).mean()


def bce_of_probabilities(p: Tensor, target: Tensor) -> Tensor:
    eps = 1e-7
    return -(target * torch.log(p + eps) + (1 - target) * torch.log(1 - p + eps)).mean()


def focal(logits: Tensor, target: Tensor, gamma: float = 2.0, alpha: float = 0.25) -> Tensor:
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    alpha_t = alpha * target + (1 - alpha) * (1 - target)
    return (alpha_t * (1 - p_t) ** gamma * ce).mean()


def dice(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    overlap = (p * target).sum(-1)
    return (1 - (2 * overlap + 1) / (p.sum(-1) + target.sum(-1) + 1)).mean()


def tversky(logits: Tensor, target: Tensor, alpha: float = 0.3, beta: float = 0.7) -> Tensor:
    p = torch.sigmoid(logits)
    hit = (p * target).sum()
    false_alarm = (p * (1 - target)).sum()
    missed = ((1 - p) * target).sum()
    return 1 - (hit + 1) / (hit + alpha * false_alarm + beta * missed + 1)


def kl_from_log_probabilities(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * torch.mean(torch.sum(1 + log_variance - mean**2 - log_variance.exp(), dim=1))


def distillation(student: Tensor, teacher: Tensor, temperature: float = 3.0) -> Tensor:
    wanted = F.softmax(teacher / temperature, dim=-1)
    given = F.log_softmax(student / temperature, dim=-1)
    return temperature**2 * (wanted * (torch.log(wanted) - given)).sum(-1).mean()


def gaussian_nll(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (log_variance + (target - mean) ** 2 / log_variance.exp()).mean()


def cross_entropy_by_hand(logits: Tensor, target: Tensor) -> Tensor:
    shifted = logits - logits.max(dim=-1, keepdim=True).values.detach()
    log_probabilities = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return -log_probabilities.gather(1, target[:, None]).mean()


def label_smoothing(logits: Tensor, target: Tensor, eps: float = 0.1) -> Tensor:
    log_p = F.log_softmax(logits, dim=-1)
    nll = -log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return ((1 - eps) * nll - eps * log_p.mean(-1)).mean()


def info_nce(query: Tensor, key: Tensor, temperature: float = 0.1) -> Tensor:
    q = F.normalize(query, dim=-1)
    k = F.normalize(key, dim=-1)
    logits = q @ k.t() / temperature
    return F.cross_entropy(logits, torch.arange(logits.shape[0], device=logits.device))


def contrastive(a: Tensor, b: Tensor, same: Tensor, margin: float = 1.0) -> Tensor:
    distance = torch.sqrt(((a - b) ** 2).sum(-1) + 1e-8)
    return (same * distance**2 + (1 - same) * torch.clamp(margin - distance, min=0) ** 2).mean()


def triplet(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 0.2) -> Tensor:
    near = (anchor - positive).pow(2).sum(1)
    far = (anchor - negative).pow(2).sum(1)
    return torch.relu(near - far + margin).mean()


def hinge(score: Tensor, sign: Tensor) -> Tensor:
    return torch.clamp(1 - sign * score, min=0).mean()


def multi_class_hinge(scores: Tensor, target: Tensor) -> Tensor:
    right = scores.gather(1, target[:, None])
    margins = torch.relu(scores - right + 1)
    return (margins.sum(1) - 1).mean()


def poisson_nll(log_rate: Tensor, count: Tensor) -> Tensor:
    return (log_rate.exp() - count * log_rate).mean()


def wing(prediction: Tensor, target: Tensor, w: float = 1.0, eps: float = 0.5) -> Tensor:
    error = (prediction - target).abs()
    offset = w - w * math.log(1 + w / eps)
    return torch.where(error < w, w * torch.log(1 + error / eps), error - offset).mean()


def charbonnier(prediction: Tensor, target: Tensor) -> Tensor:
    return torch.sqrt((prediction - target) ** 2 + 1e-6).mean()


def iou_of_boxes(a: Tensor, b: Tensor) -> Tensor:
    """Boxes as (left, top, width, height), width and height positive."""
    left_top = torch.maximum(a[:, :2], b[:, :2])
    right_bottom = torch.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
    side = (right_bottom - left_top).clamp(min=0)
    overlap = side[:, 0] * side[:, 1]
    union = a[:, 2] * a[:, 3] + b[:, 2] * b[:, 3] - overlap
    return (1 - overlap / union).mean()


def policy_gradient(logits: Tensor, action: Tensor, advantage: Tensor, bonus: float = 0.01) -> Tensor:
    log_p = torch.log_softmax(logits, dim=-1)
    chosen = log_p.gather(1, action.unsqueeze(1)).squeeze(1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return -(chosen * advantage).mean() - bonus * entropy.mean()


def ppo_clipped(log_p: Tensor, old_log_p: Tensor, advantage: Tensor, eps: float = 0.2) -> Tensor:
    ratio = torch.exp(log_p - old_log_p)
    return -torch.min(ratio * advantage, torch.clamp(ratio, 1 - eps, 1 + eps) * advantage).mean()


def barlow_twins(a: Tensor, b: Tensor, off: float = 0.005) -> Tensor:
    a = (a - a.mean(0)) / a.std(0)
    b = (b - b.mean(0)) / b.std(0)
    c = a.T @ b / a.shape[0]
    diagonal = (torch.diagonal(c) - 1).pow(2).sum()
    return diagonal + off * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


_WITH_TARGET = (mean_squared_error, huber, huber_by_masks, pseudo_huber, log_cosh, log_cosh_plain, quantile, expectile,
                hinge, poisson_nll, wing, charbonnier)  # fmt: skip
_WITH_BITS = (bce_from_logits, focal, dice, tversky)
_WITH_LABELS = (cross_entropy_by_hand, label_smoothing, multi_class_hinge)

FORWARDS = (
    *(Forward(function, lambda n: (real(n), fixed(n))) for function in _WITH_TARGET),
    *(Forward(function, lambda n: (real(*rows(n)), bits(*rows(n)))) for function in _WITH_BITS),
    *(Forward(function, lambda n: (real(*rows(n)), labels(8, rows(n)[0]))) for function in _WITH_LABELS),
    Forward(bce_of_probabilities, lambda n: (unit(n), bits(n))),
    Forward(kl_from_log_probabilities, lambda n: (real(*rows(n)), real(*rows(n)))),
    Forward(kl_to_standard_normal, lambda n: (real(*rows(n)), real(*rows(n)))),
    Forward(distillation, lambda n: (real(*rows(n)), fixed(*rows(n)))),
    Forward(gaussian_nll, lambda n: (real(n), real(n), fixed(n))),
    Forward(info_nce, lambda n: (real(square(n)[0], 16), real(square(n)[0], 16))),
    Forward(contrastive, lambda n: (real(*rows(n)), real(*rows(n)), bits(rows(n)[0]))),
    Forward(triplet, lambda n: (real(*rows(n)), real(*rows(n)), real(*rows(n)))),
    Forward(iou_of_boxes, lambda n: (unit(n // 4, 4), unit(n // 4, 4))),
    Forward(policy_gradient, lambda n: (real(*rows(n)), labels(8, rows(n)[0]), fixed(rows(n)[0]))),
    Forward(ppo_clipped, lambda n: (real(n), fixed(n), fixed(n))),
    Forward(barlow_twins, lambda n: (real(*rows(n)), real(*rows(n)))),
)
