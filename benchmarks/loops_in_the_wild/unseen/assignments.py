"""After assignments: the ones that were kept aside."""

import torch

from loops_in_the_wild.case import Case


def avg_pool_naive(x, size):
    B, H, W = x.shape
    pooled = torch.zeros(B, H // size, W // size, dtype=x.dtype)
    for b in range(B):
        for r in range(H // size):
            for c in range(W // size):
                acc = 0.0
                for dr in range(size):
                    for dc in range(size):
                        acc = acc + x[b, r * size + dr, c * size + dc]
                pooled[b, r, c] = acc / (size * size)
    return pooled


def svm_gradient_naive(W, X, y):
    dW = torch.zeros_like(W)
    for i in range(X.shape[0]):
        scores = X[i] @ W
        for j in range(W.shape[1]):
            if j != y[i] and scores[j] - scores[y[i]] + 1 > 0:
                dW[:, j] += X[i]
                dW[:, y[i]] -= X[i]
    return dW / X.shape[0]


def standardize_features(X):
    cols = {}
    for j in range(X.shape[1]):
        cols[j] = (X[:, j] - X[:, j].mean()) / X[:, j].std()
    return torch.stack([cols[j] for j in range(X.shape[1])], dim=1)


def gaussian_naive_bayes(X, mu, var):
    n, d = X.shape
    logp = torch.zeros(n, mu.shape[0], dtype=X.dtype)
    for i in range(n):
        for c in range(mu.shape[0]):
            ll = 0.0
            for f in range(d):
                ll = ll - 0.5 * torch.log(6.283185307 * var[c, f]) - (X[i, f] - mu[c, f]) ** 2 / (2 * var[c, f])
            logp[i, c] = ll
    return logp


def perceptron_epoch(w, X, y):
    w = w.clone()
    for i in range(len(X)):
        if y[i] * (X[i] @ w) <= 0:
            w = w + y[i] * X[i]
    return w


def leaky_relu_list(values, slope):
    out = []
    for v in values.tolist():
        if v > 0:
            out.append(v)
        else:
            out.append(slope * v)
    return torch.tensor(out)


CASES = [
    Case(avg_pool_naive, lambda d, n: (d.normal(2, n, n + 2), 2), size=12),
    Case(svm_gradient_naive, lambda d, n: (d.normal(6, 4), d.normal(n, 6), d.integers(4, n))),
    Case(standardize_features, lambda d, n: (d.normal(12, n),), size=60),
    Case(gaussian_naive_bayes, lambda d, n: (d.normal(n, 4), d.normal(3, 4), d.uniform(3, 4) + 0.5), size=12),
    Case(
        perceptron_epoch,
        lambda d, n: (d.normal(5), d.normal(n, 5), d.signs(n)),
        "decline",
        80,
        "the weights decide about their own next update",
    ),
    Case(leaky_relu_list, lambda d, n: (d.normal(n), 0.01), size=150),
]
