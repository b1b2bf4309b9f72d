"""After metrics: the ones that were kept aside."""

import torch

from loops_in_the_wild.case import Case


def precision_at_k(scores, relevant, k):
    result = []
    for s, r in zip(scores, relevant):
        top = s.argsort(descending=True)[:k]
        result.append(r[top].float().mean())
    return torch.stack(result).mean()


def mutual_counts(x, y, nx, ny):
    joint = torch.zeros(nx, ny)
    for k in range(len(x)):
        joint[x[k], y[k]] += 1.0 / len(x)
    mi = 0.0
    for i in range(nx):
        for j in range(ny):
            if joint[i, j] > 0:
                mi += joint[i, j] * torch.log(joint[i, j] / (joint[i].sum() * joint[:, j].sum()))
    return mi


def concordance_index(time, risk, event):
    num, den = 0, 0
    n = len(time)
    for i in range(n):
        for j in range(n):
            if event[i] and time[i] < time[j]:
                den += 1
                if risk[i] > risk[j]:
                    num += 1
    return num / den if den > 0 else 0.5


def longest_run(flags):
    best = run = 0
    for f in flags:
        if f:
            run += 1
            best = max(best, run)
        else:
            run = 0
    return best


def moving_average_error(pred, target, window):
    errors = []
    for t in range(window, len(pred) + 1):
        errors.append((pred[t - window : t] - target[t - window : t]).abs().mean())
    return torch.stack(errors)


def report_worst(errors, names):
    worst, where = -1.0, None
    for name, e in zip(names, errors):
        print(name, float(e)) if e > 1e9 else None
        if e > worst:
            worst, where = float(e), name
    return worst, where


CASES = [
    Case(precision_at_k, lambda d, n: (d.normal(n, 9), d.integers(2, n, 9), 3), size=60),
    Case(mutual_counts, lambda d, n: (d.integers(5, n), d.integers(4, n), 5, 4), size=100),
    Case(concordance_index, lambda d, n: (d.uniform(n), d.normal(n), d.integers(2, n).bool())),
    Case(longest_run, lambda d, n: (d.integers(2, n).bool(),), "decline", 100, "the run so far is carried"),
    Case(moving_average_error, lambda d, n: (d.normal(n), d.normal(n), 5), size=100),
    Case(
        report_worst,
        lambda d, n: (d.uniform(n), [f"sample {k}" for k in range(n)]),
        "decline",
        100,
        "it prints in the loop",
    ),
]
