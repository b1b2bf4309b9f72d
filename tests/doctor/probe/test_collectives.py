"""A Function that talks to other processes is known by what its names stand for."""

import pytest
import torch
import torch.distributed as dist
from torch import distributed

from gradwright.doctor.probe.collectives import talks_to_processes


def unbroadcast(tensor, shape):
    return tensor.sum_to_size(shape)


def averaged(tensor):
    dist.all_reduce(tensor)
    return tensor


class Plain(torch.autograd.Function):
    """Like torch.distributed's all_reduce, broadcast( included, but alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.dist = torch.distributions.Normal(0, 1)
        return ctx.dist.cdf(torch.cdist(x, x))

    @staticmethod
    def backward(ctx, cotangent):
        return unbroadcast(cotangent, (1, 3))


def with_backward(work):
    return type("Talking", (Plain,), {"backward": staticmethod(lambda ctx, cotangent: work(cotangent))})


def imported_late(tensor):
    import torch.distributed as late

    return late.all_reduce(tensor)


@pytest.mark.parametrize(
    "work",
    [
        lambda tensor: dist.all_reduce(tensor),
        lambda tensor: distributed.broadcast(tensor, 0),
        lambda tensor: torch.distributed.get_rank(),
        lambda tensor: tensor.group.allreduce(tensor),
        lambda tensor: [averaged(part) for part in tensor],
        imported_late,
    ],
)
def test_whoever_calls_a_collective_talks(work):
    assert talks_to_processes(with_backward(work))


def test_names_that_only_sound_like_it_do_not():
    assert not talks_to_processes(Plain)
