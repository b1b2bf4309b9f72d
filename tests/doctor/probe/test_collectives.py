"""A Function that talks to other processes is known by what its names stand for."""

import pytest
import torch
import torch.distributed as dist
from torch import distributed
from torch.distributed import get_rank

from gradwright.doctor.probe.collectives import _SENDING, asks_processes, talks_to_processes
from gradwright.doctor.source.effects import ASKING, lasting_effect


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


def whatever(module):
    return module


def from_within(tensor):
    from torch.distributed import broadcast, get_rank

    return [broadcast(part, get_rank()) for part in tensor]


@pytest.mark.parametrize(
    "work",
    [
        lambda tensor: dist.all_reduce(tensor),
        lambda tensor: distributed.broadcast(tensor, 0),
        lambda tensor: dist.barrier() if dist.get_rank() == 0 else None,
        lambda tensor: torch.distributed.broadcast(tensor, torch.distributed.get_rank()),
        lambda tensor: whatever(dist),
        lambda tensor: from_within(tensor),
        lambda tensor: tensor.group.allreduce(tensor),
        lambda tensor: [averaged(part) for part in tensor],
        imported_late,
    ],
)
def test_whoever_calls_a_collective_talks(work):
    assert talks_to_processes(with_backward(work))


def test_names_that_only_sound_like_it_do_not():
    assert not talks_to_processes(Plain) and not asks_processes(Plain)


def first_alone(tensor):
    return tensor if get_rank() == 0 else 0 * tensor


def imported_to_ask(tensor):
    import torch.distributed as late
    from torch.distributed import is_initialized as begun

    return [part for part in tensor if begun() and late.get_world_size() > 1]


def of_the_function_around(module):
    return lambda tensor: [part for part in tensor if module.is_available()]


@pytest.mark.parametrize(
    "work",
    [
        lambda tensor: tensor * (3 if dist.is_initialized() and dist.get_rank() else 1),
        lambda tensor: tensor / torch.distributed.get_world_size(),
        lambda tensor: tensor if dist.get_backend() == "nccl" and dist.is_nccl_available() else -tensor,
        first_alone,
        imported_to_ask,
        of_the_function_around(dist),
    ],
)
def test_who_only_asks_talks_to_nobody(work):
    assert not talks_to_processes(with_backward(work))
    assert asks_processes(with_backward(work))


def test_who_asks_through_a_helper_asks():
    assert asks_processes(with_backward(lambda tensor: first_alone(tensor)))


def test_a_function_of_the_users_is_not_known_by_a_name_that_asks():
    def get_rank(tensor):
        return dist.broadcast(tensor, 0)

    assert talks_to_processes(with_backward(get_rank))


@pytest.mark.parametrize("name", ASKING)
def test_what_asks_sends_nothing_itself(name):
    assert name not in _SENDING
    # Some came with later versions of torch.
    assert not talks_to_processes(with_backward(getattr(dist, name, dist.get_rank)))


def test_who_only_asks_leaves_nothing_behind():
    text = "import torch.distributed as dist\n\ndef f(x):\n    return dist.{}(x)\n"
    assert not lasting_effect(text.format("get_rank"), 3)
    assert lasting_effect(text.format("broadcast"), 3) == "talks to other processes (line 4: dist.broadcast)"
