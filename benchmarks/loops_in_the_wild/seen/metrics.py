"""After metrics: counting, comparing and looking up, mostly without gradients."""

import torch

from loops_in_the_wild.case import Case


def confusion_matrix(pred, target, num_classes):
    cm = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for p, t in zip(pred, target):
        cm[t, p] += 1
    return cm


def iou_per_class(pred, target, num_classes):
    ious = []
    for cls in range(num_classes):
        pred_inds = pred == cls
        target_inds = target == cls
        intersection = (pred_inds & target_inds).sum()
        union = (pred_inds | target_inds).sum()
        ious.append(intersection / (union + 1e-6))
    return torch.stack(ious)


def auc_pairs(scores, labels):
    correct = 0.0
    total = 0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if labels[i] == 1 and labels[j] == 0:
                total += 1
                if scores[i] > scores[j]:
                    correct += 1
                elif scores[i] == scores[j]:
                    correct += 0.5
    return correct / total if total else 0.0


def accuracy_per_class(pred, target, num_classes):
    correct = [0.0] * num_classes
    count = [0.0] * num_classes
    for i in range(len(target)):
        label = target[i].item()
        count[label] += 1
        if pred[i].item() == label:
            correct[label] += 1
    return [c / max(n, 1) for c, n in zip(correct, count)]


def mean_reciprocal_rank(scores, target):
    """The rank of the target is one more than the number of better scores."""
    total = 0.0
    for i in range(scores.shape[0]):
        rank = 1
        for j in range(scores.shape[1]):
            if scores[i, j] > scores[i, target[i]]:
                rank += 1
        total += 1.0 / rank
    return total / scores.shape[0]


def calibration_error(conf, correct, bins):
    ece = 0.0
    n = conf.shape[0]
    for b in range(bins):
        lo, hi = b / bins, (b + 1) / bins
        inside = (conf > lo) & (conf <= hi)
        if inside.sum() > 0:
            ece += inside.sum().item() / n * abs(correct[inside].mean().item() - conf[inside].mean().item())
    return ece


def dcg(relevance):
    total = 0.0
    for k in range(relevance.shape[0]):
        total = total + (2 ** relevance[k] - 1) / torch.log2(torch.tensor(k + 2.0, dtype=relevance.dtype))
    return total


def edit_distance(a, b):
    d = torch.zeros(len(a) + 1, len(b) + 1, dtype=torch.int64)
    for i in range(len(a) + 1):
        d[i, 0] = i
    for j in range(len(b) + 1):
        d[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[len(a), len(b)]


def max_drawdown(prices):
    peak = prices[0]
    worst = torch.zeros((), dtype=prices.dtype)
    for p in prices:
        if p > peak:
            peak = p
        drop = (peak - p) / peak
        if drop > worst:
            worst = drop
    return worst


def box_iou_matrix(a, b):
    n, m = a.shape[0], b.shape[0]
    iou = torch.zeros(n, m, dtype=a.dtype)
    for i in range(n):
        for j in range(m):
            w = torch.min(a[i, 2], b[j, 2]) - torch.max(a[i, 0], b[j, 0])
            h = torch.min(a[i, 3], b[j, 3]) - torch.max(a[i, 1], b[j, 1])
            inter = w.clamp(min=0) * h.clamp(min=0)
            area_a = (a[i, 2] - a[i, 0]) * (a[i, 3] - a[i, 1])
            area_b = (b[j, 2] - b[j, 0]) * (b[j, 3] - b[j, 1])
            iou[i, j] = inter / (area_a + area_b - inter)
    return iou


def top_k_hits(scores, target, k):
    hits = 0
    for i in range(scores.size(0)):
        if target[i] in scores[i].topk(k).indices:
            hits += 1
    return hits / scores.size(0)


def histogram_by_hand(values, bins):
    counts = torch.zeros(bins)
    for v in values:
        b = int(v.item() * bins)
        if b == bins:
            b = bins - 1
        counts[b] += 1
    return counts


def _boxes(d, n):
    corner = d.uniform(n, 2)
    return torch.cat([corner, corner + d.uniform(n, 2) + 0.1], dim=1)


CASES = [
    Case(confusion_matrix, lambda d, n: (d.integers(4, n), d.integers(4, n), 4), size=120),
    Case(iou_per_class, lambda d, n: (d.integers(n, 200), d.integers(n, 200), n), size=50),
    Case(auc_pairs, lambda d, n: (d.normal(n).round(decimals=1), d.integers(2, n))),
    Case(accuracy_per_class, lambda d, n: (d.integers(5, n), d.integers(5, n), 5), size=120),
    Case(mean_reciprocal_rank, lambda d, n: (d.normal(n, 9), d.integers(9, n))),
    Case(calibration_error, lambda d, n: (d.uniform(60), d.integers(2, 60).to(d.dtype), n), size=40),
    Case(dcg, lambda d, n: (d.uniform(n) * 3,), size=80),
    Case(
        edit_distance,
        lambda d, n: (d.integers(4, n), d.integers(4, n + 2)),
        "decline",
        14,
        "each cell needs its left and upper neighbours",
    ),
    Case(max_drawdown, lambda d, n: (d.uniform(n) + 1,), size=100),
    Case(box_iou_matrix, lambda d, n: (_boxes(d, n), _boxes(d, n - 1)), size=12),
    Case(top_k_hits, lambda d, n: (d.normal(n, 10), d.integers(10, n), 3), size=60),
    Case(histogram_by_hand, lambda d, n: (d.uniform(n), 8), size=120),
]
