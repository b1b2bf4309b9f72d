"""A loop that moved into a Numba kernel is tried as compiled; its faulty twins, in the kernel too, run as Python."""

import types
from dataclasses import replace

import torch
from tests.doctor.prove.by_hand import changed

from gradwright.doctor.prove import Proved, prove
from gradwright.ground import clock

SCAN = """
import torch

class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x):
        h = x.clone()
        for t in range(1, x.shape[0]):
            h[t] = a[t] * h[t - 1] + x[t]
        return h

    @staticmethod
    def backward(ctx, g):
        return None, None
"""
LOOP = """
for t in range(1, x.shape[0]):
    h[t] = a[t] * h[t - 1] + x[t]
"""
KERNEL = """
import numba

@numba.njit(error_model="numpy", boundscheck=True)
def _scan(a, x, h):
    for t in range(1, x.shape[0]):
        h[t] = a[t] * h[t - 1] + x[t]
"""
CALL = """
if x.dtype in (torch.float32, torch.float64):
    _scan(a.detach().numpy(), x.detach().numpy(), h.numpy())
else:
    for t in range(1, x.shape[0]):
        h[t] = a[t] * h[t - 1] + x[t]
"""


def tried(kernel):
    text, proposal = changed(SCAN, LOOP, CALL, function="forward")
    first = proposal.new_text.split("\n").index("class Scan(torch.autograd.Function):")
    lines = proposal.new_text.split("\n")
    body = kernel.strip("\n").split("\n")
    moved = [*lines[:first], *body, *lines[first:]]
    on = tuple(range(first + 1, first + len(body) + 1))
    shifted = tuple(line + len(body) for line in proposal.changed)
    name = {"class_name": "Scan", "lines": (first + len(body) + 1, len(moved))}
    proposal = replace(proposal, new_text="\n".join(moved), added=kernel, changed=(*on, *shifted), **name)
    module = types.ModuleType("net")
    exec(compile(text, "net.py", "exec"), vars(module))
    args = torch.randn(200), torch.randn(200)
    deadline = clock.now() + 60
    return prove(proposal, module.Scan, vars(module), [(args, (True, True))], expect="same", deadline=deadline)


def test_a_kernel_that_does_the_same_is_verified_with_mutants_of_its_own_body():
    found = tried(KERNEL)
    assert isinstance(found, Proved), found
    assert found.proof.mutants_tried >= 5
    assert found.proof.before_operations > 100 * found.proof.after_operations
    assert found.proof.after_seconds > 0 < found.proof.before_seconds


def test_a_kernel_that_begins_one_step_late_is_rejected():
    found = tried(KERNEL.replace("range(1, x.shape[0])", "range(2, x.shape[0])"))
    assert isinstance(found, str) and "output 0" in found
