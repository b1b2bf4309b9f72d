"""The largest micro-batch that fits: found by a byte budget, or by what runs out of memory; everything else as
before."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.ground.memory import memory_of
from gradwright.training import find_micro_batch_size

HUGE = 1 << 60


class Greedy(nn.Module):
    """Runs out of memory above ``room`` samples; draws and moves a buffer at each forward."""

    def __init__(self, room: int, error: type[Exception] = torch.OutOfMemoryError) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.room, self.error, self.tried = room, error, list[int]()
        self.register_buffer("forwards", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.tried.append(len(x))
        self.forwards += 1  # type: ignore[assignment]
        if len(x) > self.room:
            raise self.error("no room")
        return (x * self.weight * torch.rand(())).sum()


@pytest.mark.parametrize("samples", [1, 2, 3, 31, 32, 33])
@pytest.mark.parametrize("room", [1, 2, 3, 7, 8, 31, 32, 40])
def test_what_runs_out_of_memory_says_the_size(samples: int, room: int) -> None:
    model = Greedy(room)
    assert find_micro_batch_size(model, model, torch.ones(samples, 3), max_bytes=HUGE) == min(samples, room)
    assert max(model.tried) <= samples


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_of_any_allocator(error: type[Exception]) -> None:
    model = Greedy(5, error)
    assert find_micro_batch_size(model, model, torch.ones(16, 3), max_bytes=HUGE) == 5


def test_the_allocator_of_the_cpu_is_known_by_its_text() -> None:
    def loss_of(x: Tensor) -> Tensor:
        if len(x) > 5:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte")
        return (x * model.weight).sum()

    model = Greedy(99)
    assert find_micro_batch_size(model, loss_of, torch.ones(16, 3), max_bytes=HUGE) == 5


def test_other_errors_are_the_users() -> None:
    model = Greedy(5, ValueError)
    with pytest.raises(ValueError, match="no room"):
        find_micro_batch_size(model, model, torch.ones(16, 3), max_bytes=HUGE)


def budget_net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))


def test_a_byte_budget_holds_and_one_more_would_break_it() -> None:
    net, batch, limit = budget_net(), torch.randn(300, 16), 100_000

    def took(size: int) -> int:
        def passes() -> None:
            for _ in range(2):
                net(batch[:size]).sum().backward()

        for parameter in net.parameters():
            parameter.grad = None
        return memory_of(passes, torch.device("cpu")).peak_bytes

    size = find_micro_batch_size(net, lambda x: net(x).sum(), batch, max_bytes=limit)
    assert took(size) <= limit < took(size + 1)
    assert size > 16


def test_random_state_gradients_and_buffers_are_put_back() -> None:
    model = Greedy(5)
    model.weight.grad = kept = torch.full((3,), 7.0)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    find_micro_batch_size(model, model, torch.ones(16, 3), max_bytes=HUGE)
    assert torch.equal(torch.rand(4), expected)
    assert model.weight.grad is kept and torch.equal(kept, torch.full((3,), 7.0))
    assert model.forwards == 0


def test_no_more_than_the_largest_that_was_asked_for() -> None:
    model = Greedy(99)
    assert find_micro_batch_size(model, model, torch.ones(64, 3), max_bytes=HUGE, largest=20) == 20
    assert max(model.tried) == 20


def test_losses_in_mappings_and_pairs() -> None:
    model = Greedy(6)
    losses = {"a": lambda x: (model(x), 3), "b": model}
    batch = torch.ones(9, 3)
    found = find_micro_batch_size(
        model, lambda x: {name: loss(x) for name, loss in losses.items()}, batch, max_bytes=HUGE
    )
    assert found == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "say max_bytes= on the CPU"), ({"max_bytes": 0}, "above 0"), ({"max_bytes": 1}, "one sample does not fit")],
)
def test_what_can_not_be_found_is_refused(options: dict[str, Any], said: str) -> None:
    model = Greedy(9)
    with pytest.raises(UsageError, match=said):
        find_micro_batch_size(model, model, torch.ones(4, 3), **options)
