"""Whole Functions: the loops of forward and backward compiled one after the other, and how the new file reads."""

import pytest
import torch

SOFT_DTW = '''"""Dynamic time warping, made smooth."""

from __future__ import annotations

import torch


# Cuturi and Blondel, 2017
class SoftDTW(torch.autograd.Function):
    @staticmethod
    def forward(ctx, D, gamma):
        n, m = D.shape
        R = torch.full((n + 1, m + 1), float("inf"), dtype=D.dtype, device=D.device)
        R[0, 0] = 0.0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                r = torch.stack([R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]])
                R[i, j] = D[i - 1, j - 1] - gamma * torch.logsumexp(-r / gamma, 0)
        ctx.save_for_backward(D, R)
        ctx.gamma = gamma
        return R[n, m].clone()

    @staticmethod
    def backward(ctx, grad_output):
        D, R = ctx.saved_tensors
        n, m = D.shape
        E = torch.zeros(n + 2, m + 2, dtype=D.dtype, device=D.device)
        E[n, m] = 1.0
        # from the end to the beginning
        for i in range(n, 0, -1):
            for j in range(m, 0, -1):
                if i < n:
                    E[i, j] += E[i + 1, j] * torch.exp((R[i + 1, j] - R[i, j] - D[i, j - 1]) / ctx.gamma)
                if j < m:
                    E[i, j] += E[i, j + 1] * torch.exp((R[i, j + 1] - R[i, j] - D[i - 1, j]) / ctx.gamma)
                if i < n and j < m:
                    E[i, j] += E[i + 1, j + 1] * torch.exp((R[i + 1, j + 1] - R[i, j] - D[i, j]) / ctx.gamma)
        return grad_output * E[1 : n + 1, 1 : m + 1], None
'''


def small(*shape, dtype=torch.float64):
    return torch.linspace(0, 3, shape[0] * shape[1], dtype=dtype).cos().reshape(shape).square()


@pytest.fixture(scope="module")
def soft_dtw(bench):
    args = [small(5, 4, dtype=torch.float32), 0.7]
    original, _, first = bench.compiled(SOFT_DTW, args, name="SoftDTW", wanted=[True, False])
    _, candidate, second = bench.compiled(first.new_text, args, name="SoftDTW", wanted=[True, False], loop=1)
    return original, candidate, first, second


def test_forward_and_backward_do_what_they_did(bench, soft_dtw):
    original, candidate, _, _ = soft_dtw
    for values in (small(5, 4), small(1, 1), small(7, 2), small(1, 4).expand(3, 4)):
        assert bench.difference(original, candidate, [values, 1.0], [True, False]) == ""
    assert bench.difference(original, candidate, [small(3, 4, dtype=torch.bfloat16), 1.0], [True, False]) == ""


def test_a_graph_of_the_backward_is_still_recorded(soft_dtw):
    for function in soft_dtw[:2]:
        values = small(3, 3).requires_grad_()
        (gradient,) = torch.autograd.grad(function.apply(values, 1.0), values, create_graph=True)
        assert gradient.requires_grad


def test_a_number_given_as_a_tensor_takes_the_old_path(bench, soft_dtw):
    original, candidate, _, _ = soft_dtw
    assert bench.difference(original, candidate, [small(3, 4), torch.tensor(0.5)], [True, False]) == ""


def test_the_new_file_reads_as_one_writes_it(soft_dtw):
    _, _, first, second = soft_dtw
    assert first.new_text.startswith(
        '"""Dynamic time warping, made smooth."""\n\nfrom __future__ import annotations\n\n'
        "import math\n\nimport numba\nimport numpy as np\nimport torch\n\n\n"
        "# The loop of SoftDTW.forward, compiled when it is first called.\n"
        '@numba.njit(error_model="numpy")\n'
        "def _soft_dtw_forward("
    )
    assert second.new_text.count("import numba\n") == 1
    assert "# from the end to the beginning\n        if (\n            not torch.is_grad_enabled()" in second.new_text
    assert (
        "                    if i < n:\n                        E[i, j] += E[i + 1, j] * torch.exp(" in second.new_text
    )
    lines = second.new_text.split("\n")
    assert lines[second.lines[0] - 1].strip() == "@staticmethod"
    assert (second.class_name, second.function, second.rewrite) == ("SoftDTW", "backward", "compile_kernel")


def test_a_fault_in_the_backward_is_seen(bench, soft_dtw):
    original, _, _, second = soft_dtw
    faulty = second.new_text.replace("E[i, j + 1] * math.exp", "E[i + 1, j] * math.exp", 1)
    assert faulty != second.new_text
    assert bench.difference(original, bench.loaded(faulty).SoftDTW, [small(5, 4), 1.0], [True, False])
