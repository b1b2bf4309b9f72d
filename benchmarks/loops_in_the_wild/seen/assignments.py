"""After the first assignments of courses on neural networks: everything once with explicit loops."""

import torch

from loops_in_the_wild.case import Case


def compute_distances_two_loops(X, X_train):
    num_test = X.shape[0]
    num_train = X_train.shape[0]
    dists = torch.zeros((num_test, num_train), dtype=X.dtype)
    for i in range(num_test):
        for j in range(num_train):
            # l2 distance between the ith test point and the jth training point
            dists[i, j] = torch.sqrt(torch.sum((X[i] - X_train[j]) ** 2))
    return dists


def compute_distances_one_loop(X, X_train):
    dists = torch.zeros(X.shape[0], X_train.shape[0], dtype=X.dtype)
    for i in range(X.shape[0]):
        dists[i] = torch.sqrt(((X_train - X[i]) ** 2).sum(dim=1))
    return dists


def svm_loss_naive(W, X, y, reg):
    num_classes = W.shape[1]
    num_train = X.shape[0]
    loss = 0.0
    for i in range(num_train):
        scores = X[i] @ W
        correct_class_score = scores[y[i]]
        for j in range(num_classes):
            if j == y[i]:
                continue
            margin = scores[j] - correct_class_score + 1  # note delta = 1
            if margin > 0:
                loss += margin
    loss /= num_train
    loss += reg * torch.sum(W * W)
    return loss


def softmax_loss_naive(W, X, y, reg):
    loss = 0.0
    num_train = X.shape[0]
    for i in range(num_train):
        f = X[i].mm(W) if X[i].dim() > 1 else X[i].matmul(W)
        f = f - f.max()
        p = torch.exp(f) / torch.exp(f).sum()
        loss = loss - torch.log(p[y[i]])
    return loss / num_train + reg * (W * W).sum()


def affine_forward_naive(x, w, b):
    N, D = x.shape
    M = w.shape[1]
    out = torch.zeros(N, M, dtype=x.dtype)
    for n in range(N):
        for m in range(M):
            for d in range(D):
                out[n, m] += x[n, d] * w[d, m]
            out[n, m] += b[m]
    return out


def relu_forward_naive(x):
    out = x.clone()
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i][j] < 0:
                out[i][j] = 0
    return out


def conv_forward_naive(x, w, b, stride, pad):
    N, C, H, W = x.shape
    F, _, HH, WW = w.shape
    x_pad = torch.nn.functional.pad(x, (pad, pad, pad, pad))
    H_out = 1 + (H + 2 * pad - HH) // stride
    W_out = 1 + (W + 2 * pad - WW) // stride
    out = torch.zeros(N, F, H_out, W_out, dtype=x.dtype)
    for n in range(N):
        for f in range(F):
            for i in range(H_out):
                for j in range(W_out):
                    window = x_pad[n, :, i * stride : i * stride + HH, j * stride : j * stride + WW]
                    out[n, f, i, j] = (window * w[f]).sum() + b[f]
    return out


def max_pool_forward_naive(x):
    N, C, H, W = x.shape
    out = torch.zeros(N, C, H // 2, W // 2, dtype=x.dtype)
    for n in range(N):
        for c in range(C):
            for i in range(H // 2):
                for j in range(W // 2):
                    out[n, c, i, j] = torch.max(x[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2])
    return out


def batchnorm_forward_columns(x, gamma, beta, eps):
    out = torch.zeros_like(x)
    D = x.shape[1]
    for d in range(D):
        col = x[:, d]
        mu = col.mean()
        var = ((col - mu) ** 2).mean()
        out[:, d] = gamma[d] * (col - mu) / torch.sqrt(var + eps) + beta[d]
    return out


def layernorm_rows(x):
    rows = []
    for row in x:
        rows.append((row - row.mean()) / (row.std() + 1e-5))
    return torch.stack(rows)


def im2col_1d(x, k):
    cols = []
    for i in range(x.shape[1] - k + 1):
        cols.append(x[:, i : i + k])
    return torch.stack(cols, dim=1)


def one_hot_naive(labels, num_classes):
    out = torch.zeros(len(labels), num_classes)
    for i in range(len(labels)):
        out[i, labels[i]] = 1.0
    return out


def kmeans_assign(X, centroids):
    """The nearest centroid of every point; the first one if two are as near."""
    labels = torch.zeros(len(X), dtype=torch.long)
    for i in range(len(X)):
        best = float("inf")
        for k in range(len(centroids)):
            d = torch.sum((X[i] - centroids[k]) ** 2).item()
            if d < best:
                best = d
                labels[i] = k
    return labels


def kmeans_update(X, labels, K):
    sums = torch.zeros(K, X.shape[1], dtype=X.dtype)
    counts = torch.zeros(K, dtype=X.dtype)
    for i in range(X.shape[0]):
        sums[labels[i]] += X[i]
        counts[labels[i]] += 1
    return sums / counts.clamp(min=1).unsqueeze(1)


def rbf_kernel_matrix(X, Y, gamma):
    K = torch.empty(X.size(0), Y.size(0), dtype=X.dtype)
    for i, xi in enumerate(X):
        for j, yj in enumerate(Y):
            diff = xi - yj
            K[i, j] = torch.exp(-gamma * diff.dot(diff))
    return K


def polynomial_features(x, degree):
    feats = []
    for d in range(degree + 1):
        feats.append(x**d)
    return torch.stack(feats, dim=-1)


def sigmoid_cross_entropy_elements(logits, targets):
    total = 0.0
    n, k = logits.shape
    for i in range(n):
        for j in range(k):
            p = 1 / (1 + torch.exp(-logits[i, j]))
            total = total - targets[i, j] * torch.log(p) - (1 - targets[i, j]) * torch.log(1 - p)
    return total / (n * k)


def _svm(d, n):
    return d.normal(10, 5), d.normal(n, 10), d.integers(5, n), 0.05


CASES = [
    Case(compute_distances_two_loops, lambda d, n: (d.normal(n, 8), d.normal(n + 3, 8))),
    Case(compute_distances_one_loop, lambda d, n: (d.normal(n, 8), d.normal(n + 3, 8)), size=100),
    Case(svm_loss_naive, _svm, size=40),
    Case(softmax_loss_naive, _svm, size=60),
    Case(affine_forward_naive, lambda d, n: (d.normal(n // 2, 7), d.normal(7, 5), d.normal(5))),
    Case(relu_forward_naive, lambda d, n: (d.normal(n, n + 1),)),
    Case(
        conv_forward_naive,
        lambda d, n: (d.normal(2, 3, n // 2, n // 2 + 1), d.normal(4, 3, 3, 3), d.normal(4), 1, 1),
        size=12,
    ),
    Case(max_pool_forward_naive, lambda d, n: (d.normal(2, 3, n, n + 2),), size=12),
    Case(
        batchnorm_forward_columns,
        lambda d, n: (d.normal(16, n), d.normal(n), d.normal(n), 1e-5),
        size=60,
    ),
    Case(layernorm_rows, lambda d, n: (d.normal(n, 10),), size=80),
    Case(im2col_1d, lambda d, n: (d.normal(3, n), 4), size=80),
    Case(one_hot_naive, lambda d, n: (d.integers(6, n), 6), size=100),
    Case(kmeans_assign, lambda d, n: (d.normal(n, 3), d.normal(5, 3)), size=30),
    Case(kmeans_update, lambda d, n: (d.normal(n, 3), d.integers(4, n), 4), size=60),
    Case(rbf_kernel_matrix, lambda d, n: (d.normal(n, 5), d.normal(n - 2, 5), 0.3), size=16),
    Case(polynomial_features, lambda d, n: (d.normal(n), 40), size=10),
    Case(sigmoid_cross_entropy_elements, lambda d, n: (d.normal(n, 5), d.integers(2, n, 5).to(d.dtype)), size=20),
]
