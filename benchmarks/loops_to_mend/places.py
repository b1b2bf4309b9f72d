"""Places that values say, running results, and gradients taken one by one."""

import torch

import gradwright as gw
from loops_to_mend.task import Task, chosen, drawn


def histogram_loop(index, weight, bins):
    out = torch.zeros(bins)
    for k in range(len(index)):
        out[index[k]] += weight[k]
    return out


def histogram_expert(index, weight, bins):
    return torch.zeros(bins).index_add(0, index, weight)


def segments_loop(rows, index, count):
    out = torch.zeros(count, rows.shape[1])
    for k in range(rows.shape[0]):
        out[index[k]] += rows[k]
    return out


def segments_expert(rows, index, count):
    return rows.new_zeros(count, rows.shape[1]).index_add(0, index, rows)


def lookup_loop(table, index):
    rows = []
    for k in index:
        rows.append(table[k])
    return torch.stack(rows)


def lookup_expert(table, index):
    return table[index]


def picked_loop(logp, target):
    loss = 0.0
    for i in range(logp.shape[0]):
        loss = loss - logp[i, target[i]]
    return loss / logp.shape[0]


def picked_expert(logp, target):
    return -logp.gather(1, target[:, None]).mean()


def running_sum_loop(x):
    out = torch.zeros_like(x)
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i]
        out[i] = total
    return out


def running_sum_expert(x):
    return x.cumsum(0)


def running_max_loop(x):
    out = torch.zeros_like(x)
    best = x[0]
    for i in range(x.shape[0]):
        if x[i] > best:
            best = x[i]
        out[i] = best
    return out


def running_max_expert(x):
    return x.cummax(0).values


def pairs_loop(scores, relevance):
    loss = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if relevance[i] > relevance[j]:
                loss = loss + torch.relu(1 - scores[i] + scores[j])
    return loss


def pairs_expert(scores, relevance):
    hinge = torch.relu(1 - scores[:, None] + scores)
    return torch.where(relevance[:, None] > relevance, hinge, 0).sum()


def _net(z, weight):
    return torch.tanh(z @ weight) @ weight.T


def jacobian_loop(z, weight):
    z = z.detach().requires_grad_()
    out = _net(z, weight)
    result = torch.zeros(z.shape[0], out.shape[1], z.shape[1])
    for j in range(z.shape[0]):
        for k in range(out.shape[1]):
            result[j, k] = torch.autograd.grad(out[j][k], z, retain_graph=True)[0][j]
    return result


def jacobian_expert(z, weight):
    z = z.detach().requires_grad_()
    return gw.batch_jacobian(_net(z, weight), z)


def gradient_rows_loop(x, weight):
    x = x.detach().requires_grad_()
    energy = torch.tanh(x @ weight).sum(1)
    rows = []
    for i in range(x.shape[0]):
        rows.append(torch.autograd.grad(energy[i], x, retain_graph=True)[0][i])
    return torch.stack(rows)


def gradient_rows_expert(x, weight):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(torch.tanh(x @ weight).sum(), x)[0]


TASKS = [
    Task("histogram, 10,000 into 50", histogram_loop, histogram_expert,
         lambda n: (chosen(50, n), drawn(n), 50), 10_000, 100),
    Task("segment sums, 4,000 x 16 into 40", segments_loop, segments_expert,
         lambda n: (drawn(n, 16), chosen(40, n), 40), 4_000, 80),
    Task("rows looked up, 4,000 x 16", lookup_loop, lookup_expert, lambda n: (drawn(500, 16), chosen(500, n)),
         4_000, 80),
    Task("log-likelihood picked, 4,000 x 10", picked_loop, picked_expert, lambda n: (drawn(n, 10), chosen(10, n)),
         4_000, 80),
    Task("running sum, 5,000", running_sum_loop, running_sum_expert, lambda n: (drawn(n),), 5_000, 100),
    Task("running maximum, 5,000", running_max_loop, running_max_expert, lambda n: (drawn(n),), 5_000, 100),
    Task("ranking pairs, 100 x 100", pairs_loop, pairs_expert, lambda n: (drawn(n), chosen(5, n)), 100, 14),
    Task("Jacobian, 64 samples, 16 by 16", jacobian_loop, jacobian_expert, lambda n: (drawn(n, 16), drawn(16, 16)),
         64, 8, False),
    Task("gradients of samples, 500 x 16", gradient_rows_loop, gradient_rows_expert,
         lambda n: (drawn(n, 16), drawn(16, 16)), 500, 40, False),
]  # fmt: skip
