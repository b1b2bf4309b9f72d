"""After losses and penalties in repositories of models: a term per sample, pair or class."""

import torch
import torch.nn.functional as F

from loops_in_the_wild.case import Case


def triplet_loss(anchor, positive, negative, margin):
    losses = []
    for a, p, n in zip(anchor, positive, negative):
        d_pos = (a - p).pow(2).sum()
        d_neg = (a - n).pow(2).sum()
        losses.append(torch.relu(d_pos - d_neg + margin))
    return torch.stack(losses).mean()


def contrastive_pairs(emb, labels, margin):
    loss = torch.tensor(0.0, dtype=emb.dtype)
    count = 0
    for i in range(emb.shape[0]):
        for j in range(i + 1, emb.shape[0]):
            dist = (emb[i] - emb[j]).pow(2).sum()
            if labels[i] == labels[j]:
                loss = loss + dist
            else:
                loss = loss + torch.clamp(margin - dist, min=0)
            count += 1
    return loss / count


def focal_loss_elements(p, t, gamma):
    loss = torch.zeros_like(p)
    for i in range(p.shape[0]):
        for j in range(p.shape[1]):
            if t[i, j] == 1:
                loss[i, j] = -((1 - p[i, j]) ** gamma) * torch.log(p[i, j])
            else:
                loss[i, j] = -(p[i, j] ** gamma) * torch.log(1 - p[i, j])
    return loss.mean()


def dice_per_class(pred, target):
    dice = 0
    for c in range(pred.shape[1]):
        p = pred[:, c].reshape(-1)
        t = target[:, c].reshape(-1)
        inter = (p * t).sum()
        dice = dice + (2 * inter + 1) / (p.sum() + t.sum() + 1)
    return 1 - dice / pred.shape[1]


def huber_elements(pred, target, delta):
    out = torch.empty_like(pred)
    for i in range(pred.numel()):
        err = abs(pred[i] - target[i])
        if err <= delta:
            out[i] = 0.5 * err**2
        else:
            out[i] = delta * (err - 0.5 * delta)
    return out.sum()


def ranking_hinge(scores, relevance):
    loss = 0.0
    pairs = 0
    n = len(scores)
    for i in range(n):
        for j in range(n):
            if relevance[i] > relevance[j]:
                loss += torch.clamp(1 - (scores[i] - scores[j]), min=0)
                pairs += 1
    return loss / max(pairs, 1)


def nt_xent_rows(z, temperature):
    """Rows 2k and 2k + 1 are two views of one sample."""
    z = F.normalize(z, dim=1)
    sim = z @ z.T / temperature
    total = 0.0
    n = sim.shape[0]
    for i in range(n):
        j = i + 1 if i % 2 == 0 else i - 1
        denom = 0.0
        for k in range(n):
            if k != i:
                denom = denom + torch.exp(sim[i, k])
        total = total - torch.log(torch.exp(sim[i, j]) / denom)
    return total / n


def quantile_loss(preds, target, quantiles):
    losses = []
    for i, q in enumerate(quantiles):
        errors = target - preds[:, i]
        losses.append(torch.max((q - 1) * errors, q * errors).unsqueeze(1))
    return torch.mean(torch.sum(torch.cat(losses, dim=1), dim=1))


def center_loss(features, labels, centers):
    loss = 0
    for idx in range(features.size(0)):
        c = centers[labels[idx]]
        loss += torch.sum((features[idx] - c) ** 2) / 2
    return loss / features.size(0)


def ctc_like_alpha(log_probs, labels):
    """The forward variable of a monotone alignment."""
    T, S = log_probs.shape[0], len(labels)
    alpha = torch.full((T, S), -1e9, dtype=log_probs.dtype)
    alpha[0, 0] = log_probs[0, labels[0]]
    for t in range(1, T):
        for s in range(S):
            stay = alpha[t - 1, s].clone()
            if s > 0:
                stay = torch.logaddexp(stay, alpha[t - 1, s - 1].clone())
            alpha[t, s] = stay + log_probs[t, labels[s]]
    return -alpha[T - 1, S - 1]


CASES = [
    Case(triplet_loss, lambda d, n: (d.normal(n, 8), d.normal(n, 8), d.normal(n, 8), 0.5), size=80),
    Case(contrastive_pairs, lambda d, n: (d.normal(n, 4), d.integers(3, n), 6.0), size=16),
    Case(focal_loss_elements, lambda d, n: (d.uniform(n, 4) * 0.9 + 0.05, d.integers(2, n, 4), 2)),
    Case(dice_per_class, lambda d, n: (d.uniform(2, n, 5, 5), d.integers(2, 2, n, 5, 5).to(d.dtype)), size=40),
    Case(huber_elements, lambda d, n: (d.normal(n), d.normal(n), 0.7), size=150),
    Case(ranking_hinge, lambda d, n: (d.normal(n), d.integers(3, n)), size=20),
    Case(nt_xent_rows, lambda d, n: (d.normal(2 * (n // 2), 6), 0.5), size=16),
    Case(quantile_loss, lambda d, n: (d.normal(12, n), d.normal(12), [(k + 1) / (n + 1) for k in range(n)]), size=40),
    Case(center_loss, lambda d, n: (d.normal(n, 6), d.integers(4, n), d.normal(4, 6)), size=80),
    Case(
        ctc_like_alpha,
        lambda d, n: (torch.log_softmax(d.normal(n, 6), 1), d.integers(6, n // 2)),
        "rewrite",  # over s; time stays
        12,
    ),
]
