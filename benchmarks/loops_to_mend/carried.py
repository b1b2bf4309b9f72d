"""Loops that carry a true dependence, in Functions: no array code exists, machine code does.

The expert's version is Numba by hand, over the tensors' memory.
"""

# ruff: noqa: N803, N806 - matrices have capital letters
import numba
import numpy as np
import torch
from torch.autograd import Function

from loops_to_mend.task import Task, drawn


class RecurrenceLoop(Function):
    """y[t] = a[t] * y[t - 1] + b[t]"""

    @staticmethod
    def forward(ctx, a, b):
        y = torch.zeros_like(b)
        y[0] = b[0]
        for t in range(1, b.shape[0]):
            y[t] = a[t] * y[t - 1] + b[t]
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        a, y = ctx.saved_tensors
        grad_a = torch.zeros_like(a)
        grad_b = torch.zeros_like(a)
        carry = torch.zeros_like(a[0])
        for t in range(a.shape[0] - 1, 0, -1):
            carry = carry + grad_y[t]
            grad_b[t] = carry
            grad_a[t] = carry * y[t - 1]
            carry = carry * a[t]
        grad_b[0] = carry + grad_y[0]
        return grad_a, grad_b


@numba.njit
def _recurrence(a, b, y):
    y[0] = b[0]
    for t in range(1, b.shape[0]):
        y[t] = a[t] * y[t - 1] + b[t]


@numba.njit
def _recurrence_backward(a, y, grad_y, grad_a, grad_b):
    carry = grad_y.dtype.type(0)
    grad_a[0] = 0
    for t in range(a.shape[0] - 1, 0, -1):
        carry = carry + grad_y[t]
        grad_b[t] = carry
        grad_a[t] = carry * y[t - 1]
        carry = carry * a[t]
    grad_b[0] = carry + grad_y[0]


class RecurrenceExpert(Function):
    @staticmethod
    def forward(ctx, a, b):
        y = torch.empty_like(b)
        _recurrence(a.numpy(), b.numpy(), y.numpy())
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        a, y = ctx.saved_tensors
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(a)
        _recurrence_backward(a.numpy(), y.numpy(), grad_y.numpy(), grad_a.numpy(), grad_b.numpy())
        return grad_a, grad_b


class SoftDtwLoop(Function):
    """The soft minimum over alignments of a matrix of costs (Cuturi and Blondel 2017)."""

    @staticmethod
    def forward(ctx, cost):
        n, m = cost.shape
        R = torch.full((n + 2, m + 2), float("inf"))
        R[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                r0, r1, r2 = -R[i - 1, j - 1], -R[i - 1, j], -R[i, j - 1]
                top = max(r0, r1, r2)
                R[i, j] = cost[i - 1, j - 1] - (
                    top + torch.log(torch.exp(r0 - top) + torch.exp(r1 - top) + torch.exp(r2 - top))
                )
        ctx.save_for_backward(cost, R)
        return R[n, m].clone()

    @staticmethod
    def backward(ctx, grad):
        cost, R = ctx.saved_tensors
        n, m = cost.shape
        E = torch.zeros(n + 2, m + 2)
        R = R.clone()
        R[:, m + 1] = -float("inf")
        R[n + 1, :] = -float("inf")
        R[n + 1, m + 1] = R[n, m]
        D = torch.zeros(n + 2, m + 2)
        D[1 : n + 1, 1 : m + 1] = cost
        E[n + 1, m + 1] = 1
        for j in range(m, 0, -1):
            for i in range(n, 0, -1):
                a = torch.exp(R[i + 1, j] - R[i, j] - D[i + 1, j])
                b = torch.exp(R[i, j + 1] - R[i, j] - D[i, j + 1])
                c = torch.exp(R[i + 1, j + 1] - R[i, j] - D[i + 1, j + 1])
                E[i, j] = E[i + 1, j] * a + E[i, j + 1] * b + E[i + 1, j + 1] * c
        return grad * E[1 : n + 1, 1 : m + 1]


@numba.njit
def _soft_dtw(cost, R):
    n, m = cost.shape
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            r0, r1, r2 = -R[i - 1, j - 1], -R[i - 1, j], -R[i, j - 1]
            top = max(r0, r1, r2)
            R[i, j] = cost[i - 1, j - 1] - (top + np.log(np.exp(r0 - top) + np.exp(r1 - top) + np.exp(r2 - top)))


@numba.njit
def _soft_dtw_backward(D, R, E):
    n, m = D.shape[0] - 2, D.shape[1] - 2
    for j in range(m, 0, -1):
        for i in range(n, 0, -1):
            a = np.exp(R[i + 1, j] - R[i, j] - D[i + 1, j])
            b = np.exp(R[i, j + 1] - R[i, j] - D[i, j + 1])
            c = np.exp(R[i + 1, j + 1] - R[i, j] - D[i + 1, j + 1])
            E[i, j] = E[i + 1, j] * a + E[i, j + 1] * b + E[i + 1, j + 1] * c


class SoftDtwExpert(Function):
    @staticmethod
    def forward(ctx, cost):
        n, m = cost.shape
        R = torch.full((n + 2, m + 2), float("inf"))
        R[0, 0] = 0
        _soft_dtw(cost.numpy(), R.numpy())
        ctx.save_for_backward(cost, R)
        return R[n, m].clone()

    @staticmethod
    def backward(ctx, grad):
        cost, R = ctx.saved_tensors
        n, m = cost.shape
        E = torch.zeros(n + 2, m + 2)
        R = R.clone()
        R[:, m + 1] = -float("inf")
        R[n + 1, :] = -float("inf")
        R[n + 1, m + 1] = R[n, m]
        D = torch.zeros(n + 2, m + 2)
        D[1 : n + 1, 1 : m + 1] = cost
        E[n + 1, m + 1] = 1
        _soft_dtw_backward(D.numpy(), R.numpy(), E.numpy())
        return grad * E[1 : n + 1, 1 : m + 1]


class ViterbiLoop(Function):
    """The best path's score of every last state; the gradient counts the best path's states."""

    @staticmethod
    def forward(ctx, emissions, transitions):
        T, S = emissions.shape
        score = torch.zeros(T, S)
        back = torch.zeros(T, S, dtype=torch.long)
        for s in range(S):
            score[0, s] = emissions[0, s]
        for t in range(1, T):
            for s in range(S):
                best = score[t - 1, 0] + transitions[0, s]
                arg = 0
                for r in range(1, S):
                    value = score[t - 1, r] + transitions[r, s]
                    if value > best:
                        best = value
                        arg = r
                score[t, s] = best + emissions[t, s]
                back[t, s] = arg
        ctx.mark_non_differentiable(back)
        ctx.save_for_backward(back, score)
        return score[T - 1].max(), back

    @staticmethod
    def backward(ctx, grad, _):
        back, score = ctx.saved_tensors
        T, S = score.shape
        grad_e = torch.zeros_like(score)
        grad_t = torch.zeros(S, S)
        s = int(score[T - 1].argmax())
        for t in range(T - 1, 0, -1):
            grad_e[t, s] = grad
            r = int(back[t, s])
            grad_t[r, s] += grad
            s = r
        grad_e[0, s] = grad
        return grad_e, grad_t


@numba.njit
def _viterbi(emissions, transitions, score, back):
    T, S = emissions.shape
    for s in range(S):
        score[0, s] = emissions[0, s]
    for t in range(1, T):
        for s in range(S):
            best = score[t - 1, 0] + transitions[0, s]
            arg = 0
            for r in range(1, S):
                value = score[t - 1, r] + transitions[r, s]
                if value > best:
                    best = value
                    arg = r
            score[t, s] = best + emissions[t, s]
            back[t, s] = arg


@numba.njit
def _viterbi_backward(back, last, grad, grad_e, grad_t):
    s = last
    for t in range(back.shape[0] - 1, 0, -1):
        grad_e[t, s] = grad
        r = back[t, s]
        grad_t[r, s] += grad
        s = r
    grad_e[0, s] = grad


class ViterbiExpert(Function):
    @staticmethod
    def forward(ctx, emissions, transitions):
        score = torch.empty_like(emissions)
        back = torch.zeros(emissions.shape, dtype=torch.long)
        _viterbi(emissions.numpy(), transitions.numpy(), score.numpy(), back.numpy())
        ctx.mark_non_differentiable(back)
        ctx.save_for_backward(back, score)
        return score[-1].max(), back

    @staticmethod
    def backward(ctx, grad, _):
        back, score = ctx.saved_tensors
        grad_e = torch.zeros_like(score)
        grad_t = torch.zeros(score.shape[1], score.shape[1])
        _viterbi_backward(back.numpy(), int(score[-1].argmax()), float(grad), grad_e.numpy(), grad_t.numpy())
        return grad_e, grad_t


class CrfLoop(Function):
    """The log partition function of a chain; its gradient are the marginals."""

    @staticmethod
    def forward(ctx, emissions, transitions):
        T, S = emissions.shape
        alpha = torch.zeros(T, S)
        alpha[0] = emissions[0]
        for t in range(1, T):
            for s in range(S):
                alpha[t, s] = emissions[t, s] + torch.logsumexp(alpha[t - 1] + transitions[:, s], 0)
        ctx.save_for_backward(emissions, transitions, alpha)
        return torch.logsumexp(alpha[T - 1], 0)

    @staticmethod
    def backward(ctx, grad):
        emissions, transitions, alpha = ctx.saved_tensors
        T, S = emissions.shape
        grad_t = torch.zeros_like(transitions)
        grad_e = torch.zeros_like(emissions)
        grad_e[T - 1] = torch.softmax(alpha[T - 1], 0)
        for t in range(T - 1, 0, -1):
            for s in range(S):
                share = torch.softmax(alpha[t - 1] + transitions[:, s], 0) * grad_e[t, s]
                grad_e[t - 1] += share
                grad_t[:, s] += share
        return grad * grad_e, grad * grad_t


@numba.njit
def _crf(emissions, transitions, alpha):
    T, S = emissions.shape
    alpha[0] = emissions[0]
    for t in range(1, T):
        for s in range(S):
            top = alpha[t - 1, 0] + transitions[0, s]
            for r in range(1, S):
                top = max(top, alpha[t - 1, r] + transitions[r, s])
            total = emissions.dtype.type(0)
            for r in range(S):
                total += np.exp(alpha[t - 1, r] + transitions[r, s] - top)
            alpha[t, s] = emissions[t, s] + top + np.log(total)


@numba.njit
def _crf_backward(emissions, transitions, alpha, grad_e, grad_t):
    T, S = emissions.shape
    for t in range(T - 1, 0, -1):
        for s in range(S):
            # alpha[t, s] - emissions[t, s] is the logarithm of the sum: no second pass over it.
            shift = alpha[t, s] - emissions[t, s]
            for r in range(S):
                share = np.exp(alpha[t - 1, r] + transitions[r, s] - shift) * grad_e[t, s]
                grad_e[t - 1, r] += share
                grad_t[r, s] += share


class CrfExpert(Function):
    @staticmethod
    def forward(ctx, emissions, transitions):
        alpha = torch.empty_like(emissions)
        _crf(emissions.numpy(), transitions.numpy(), alpha.numpy())
        ctx.save_for_backward(emissions, transitions, alpha)
        return torch.logsumexp(alpha[-1], 0)

    @staticmethod
    def backward(ctx, grad):
        emissions, transitions, alpha = ctx.saved_tensors
        grad_t = torch.zeros_like(transitions)
        grad_e = torch.zeros_like(emissions)
        grad_e[-1] = torch.softmax(alpha[-1], 0)
        _crf_backward(emissions.numpy(), transitions.numpy(), alpha.numpy(), grad_e.numpy(), grad_t.numpy())
        return grad * grad_e, grad * grad_t


class AverageLoop(Function):
    """The exponential moving average of each column."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        out = torch.zeros_like(x)
        for j in range(x.shape[1]):
            out[0, j] = x[0, j]
            for t in range(1, x.shape[0]):
                out[t, j] = alpha * x[t, j] + (1 - alpha) * out[t - 1, j]
        return out

    @staticmethod
    def backward(ctx, grad_output):
        grad = torch.zeros_like(grad_output)
        T = grad.shape[0]
        for j in range(grad.shape[1]):
            carry = 0.0
            for t in range(T - 1, 0, -1):
                carry = grad_output[t, j] + carry
                grad[t, j] = ctx.alpha * carry
                carry = (1 - ctx.alpha) * carry
            grad[0, j] = grad_output[0, j] + carry
        return grad, None


@numba.njit
def _average(x, alpha, out):
    out[0] = x[0]
    for t in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            out[t, j] = alpha * x[t, j] + (1 - alpha) * out[t - 1, j]


@numba.njit
def _average_backward(cotangent, alpha, carry, grad):
    for t in range(cotangent.shape[0] - 1, 0, -1):
        for j in range(cotangent.shape[1]):
            carry[j] += cotangent[t, j]
            grad[t, j] = alpha * carry[j]
            carry[j] *= 1 - alpha
    for j in range(cotangent.shape[1]):
        grad[0, j] = cotangent[0, j] + carry[j]


class AverageExpert(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        out = torch.empty_like(x)
        _average(x.numpy(), np.float32(alpha), out.numpy())
        return out

    @staticmethod
    def backward(ctx, grad_output):
        grad = torch.empty_like(grad_output)
        carry = torch.zeros_like(grad_output[0])
        _average_backward(grad_output.numpy(), np.float32(ctx.alpha), carry.numpy(), grad.numpy())
        return grad, None


TASKS = [
    Task("linear recurrence, 20,000", RecurrenceLoop, RecurrenceExpert,
         lambda n: (drawn(n, positive=True) / 1.2, drawn(n)), 20_000, 120, carried=True),
    Task("soft-DTW, 80 x 80", SoftDtwLoop, SoftDtwExpert, lambda n: (drawn(n, n, positive=True),), 80, 10,
         carried=True),
    Task("Viterbi, 100 x 16", ViterbiLoop, ViterbiExpert, lambda n: (drawn(n, 16), drawn(16, 16)), 100, 12,
         carried=True),
    Task("CRF forward, 200 x 32", CrfLoop, CrfExpert, lambda n: (drawn(n, 32), drawn(32, 32)), 200, 12, carried=True),
    Task("moving average of columns, 1,000 x 16", AverageLoop, AverageExpert, lambda n: (drawn(n, 16), 0.3), 1_000, 30,
         carried=True),
]  # fmt: skip
