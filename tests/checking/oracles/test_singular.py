"""Operators whose documented singularities are no fault of who calls them."""

import torch

from gradwright.checking.oracles.singular import has_documented_singularities
from gradwright.checking.problem import pose


class InItsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        q, r = torch.linalg.qr(ctx.saved_tensors[0])
        return 2 * cotangent + 0 * (q @ r)


def test_they_are_seen_in_either_pass():
    x = torch.randn(3, 3)
    assert has_documented_singularities(pose(lambda x: torch.linalg.qr(x).R, (x,)).trial)
    assert has_documented_singularities(pose(InItsBackward, (x,)).trial)
    assert not has_documented_singularities(pose(torch.linalg.eigvalsh, (x,)).trial)
