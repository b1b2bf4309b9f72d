"""After losses and penalties: the ones that were kept aside."""

import torch
import torch.nn.functional as F

from loops_in_the_wild.case import Case


def chamfer_distance(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        best = None
        for j in range(b.shape[0]):
            d = ((a[i] - b[j]) ** 2).sum()
            if best is None or d < best:
                best = d
        total = total + best
    return total / a.shape[0]


def barlow_twins(za, zb, lambd):
    c = za.T @ zb / za.shape[0]
    loss = 0.0
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            if i == j:
                loss = loss + (1 - c[i, j]) ** 2
            else:
                loss = loss + lambd * c[i, j] ** 2
    return loss


def label_smoothing(logits, target, eps):
    logp = F.log_softmax(logits, dim=1)
    n, k = logits.shape
    loss = 0.0
    for i in range(n):
        for c in range(k):
            if c == target[i]:
                loss = loss - (1 - eps) * logp[i, c]
            else:
                loss = loss - eps / (k - 1) * logp[i, c]
    return loss / n


def gradient_penalty_per_sample(weight, x):
    """The squared norm of the gradient of each sample's output by that sample."""
    x = x.clone().requires_grad_(True)
    out = torch.tanh(x @ weight).sum(1)
    penalty = 0.0
    for i in range(x.shape[0]):
        g = torch.autograd.grad(out[i], x, create_graph=True)[0][i]
        penalty = penalty + (g.norm() - 1) ** 2
    return penalty / x.shape[0]


def masked_sequence_loss(logp, targets, lengths):
    total, count = 0.0, 0
    for b in range(logp.shape[0]):
        for t in range(logp.shape[1]):
            if t < lengths[b]:
                total = total - logp[b, t, targets[b, t]]
                count += 1
    return total / count


def cox_partial_likelihood(risk, event):
    """Subjects sorted by time, the longest first."""
    loss = 0.0
    for i in range(len(risk)):
        if event[i]:
            loss = loss - (risk[i] - torch.logsumexp(risk[: i + 1], dim=0))
    return loss / event.sum()


def spectral_penalty(W, steps):
    u = torch.ones(W.shape[0], dtype=W.dtype)
    for _ in range(steps):
        v = F.normalize(W.T @ u, dim=0)
        u = F.normalize(W @ v, dim=0)
    return u @ W @ v


def total_variation(img):
    tv = 0.0
    H, W = img.shape
    for y in range(H - 1):
        for x in range(W - 1):
            tv = tv + torch.abs(img[y + 1, x] - img[y, x]) + torch.abs(img[y, x + 1] - img[y, x])
    return tv


CASES = [
    Case(total_variation, lambda d, n: (d.normal(n, n + 2),), size=16),
    Case(chamfer_distance, lambda d, n: (d.normal(n, 3), d.normal(n + 1, 3)), size=14),
    Case(barlow_twins, lambda d, n: (d.normal(8, n), d.normal(8, n), 0.01), size=16),
    Case(label_smoothing, lambda d, n: (d.normal(n, 5), d.integers(5, n), 0.1)),
    Case(gradient_penalty_per_sample, lambda d, n: (d.normal(4, 5), d.normal(n, 4)), size=40),
    Case(
        masked_sequence_loss,
        lambda d, n: (torch.log_softmax(d.normal(n, 7, 5), -1), d.integers(5, n, 7), d.integers(7, n) + 1),
    ),
    Case(
        cox_partial_likelihood,
        lambda d, n: (d.normal(n), torch.cat([torch.ones(1), d.integers(2, n - 1)]).bool()),
        size=60,
    ),
    Case(spectral_penalty, lambda d, n: (d.normal(6, 5), n), "decline", 40, "each step needs the vector before it"),
]
