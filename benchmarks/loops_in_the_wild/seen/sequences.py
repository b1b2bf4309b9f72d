"""After models of sequences, samplers and solvers: mostly what no array code replaces."""

import torch

from loops_in_the_wild.case import Case

seen_losses = []


def rnn_forward(x, h0, Wx, Wh, b):
    h = h0
    hs = []
    for t in range(x.shape[0]):
        h = torch.tanh(x[t] @ Wx + h @ Wh + b)
        hs.append(h)
    return torch.stack(hs)


def exponential_moving_average(x, alpha):
    out = torch.zeros_like(x)
    out[0] = x[0]
    for t in range(1, len(x)):
        out[t] = alpha * x[t] + (1 - alpha) * out[t - 1].clone()
    return out


def discounted_returns(rewards, gamma):
    R = 0.0
    returns = []
    for r in rewards.flip(0):
        R = r + gamma * R
        returns.insert(0, R)
    return torch.stack(returns)


def newton_until_converged(a):
    x = a.clone()
    while (x * x - a).abs().max() > 1e-5:
        x = 0.5 * (x + a / x)
    return x


def first_above(x, threshold):
    for i in range(len(x)):
        if x[i] > threshold:
            return i
    return -1


def noisy_rows(x, sigma):
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] + sigma * torch.randn(x.shape[1])
    return out


def logged_losses(pred, target):
    total = 0.0
    for i in range(len(pred)):
        loss = (pred[i] - target[i]) ** 2
        seen_losses.append(loss.item())
        total = total + loss
    return total


def smooth_in_place(x):
    """Every element from its already smoothed neighbour."""
    y = x.clone()
    view = y.view(-1)
    for i in range(1, y.numel()):
        y[i] = 0.5 * (y[i].clone() + view[i - 1].clone())
    return y


def viterbi_scores(emissions, transitions):
    score = emissions[0]
    for t in range(1, emissions.shape[0]):
        best = torch.zeros_like(score)
        for j in range(score.shape[0]):
            best[j] = (score + transitions[:, j]).max()
        score = best + emissions[t]
    return score.max()


def greedy_nms(boxes, scores, threshold):
    order = scores.argsort(descending=True).tolist()
    keep = []
    while order:
        i = order.pop(0)
        keep.append(i)
        order = [j for j in order if abs(float(boxes[i]) - float(boxes[j])) > threshold]
    return torch.tensor(keep)


def cumulative_sum_by_hand(x):
    out = torch.zeros_like(x)
    s = 0.0
    for i in range(x.shape[0]):
        s = s + x[i]
        out[i] = s
    return out


def attention_rows(q, k, v):
    out = []
    for i in range(q.shape[0]):
        w = torch.softmax(k @ q[i] / q.shape[1] ** 0.5, dim=0)
        out.append(w @ v)
    return torch.stack(out)


def positional_encoding(length, dim):
    pe = torch.zeros(length, dim)
    for pos in range(length):
        for i in range(0, dim, 2):
            angle = torch.tensor(pos / 10000 ** (i / dim))
            pe[pos, i] = torch.sin(angle)
            pe[pos, i + 1] = torch.cos(angle)
    return pe


CASES = [
    Case(
        rnn_forward,
        lambda d, n: (d.normal(n, 3, 4), d.normal(3, 5), d.normal(4, 5), d.normal(5, 5), d.normal(5)),
        "decline",
        40,
        "the hidden state is carried",
    ),
    Case(exponential_moving_average, lambda d, n: (d.normal(n), 0.3), "decline", 100, "the average is carried"),
    Case(discounted_returns, lambda d, n: (d.normal(n), 0.9), "decline", 100, "the return is carried"),
    Case(newton_until_converged, lambda d, n: (d.uniform(n) + 0.5,), "decline", 40, "runs until it has converged"),
    Case(first_above, lambda d, n: (d.uniform(n), 0.999), "decline", 100, "stops early"),
    Case(noisy_rows, lambda d, n: (d.normal(n, 4), 0.1), "decline", 80, "draws random numbers in each iteration"),
    Case(logged_losses, lambda d, n: (d.normal(n), d.normal(n)), "decline", 80, "keeps what others read"),
    Case(smooth_in_place, lambda d, n: (d.normal(n),), "decline", 100, "an alias carries the element before"),
    Case(viterbi_scores, lambda d, n: (d.normal(n // 2, 6), d.normal(6, 6))),
    Case(greedy_nms, lambda d, n: (d.uniform(n), d.uniform(n), 0.05), "decline", 40, "what is left depends on values"),
    Case(cumulative_sum_by_hand, lambda d, n: (d.normal(n),), size=100),
    Case(attention_rows, lambda d, n: (d.normal(n, 4), d.normal(9, 4), d.normal(9, 5)), size=60),
    Case(positional_encoding, lambda d, n: (n, 8), size=30),
]
