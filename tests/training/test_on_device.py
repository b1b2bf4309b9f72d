"""Accumulation on a device that stands in for an accelerator: random states, what draws, causes, what waits."""

from typing import Any

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.training import GradientAccumulator, check_equivalence
from gradwright.training.randomness import put_back, random_state


def net(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), *more, nn.Tanh(), nn.Linear(8, 4)).to(stand_in_device.SECOND)


def data() -> tuple[Tensor, Tensor]:
    x, y = torch.randn(12, 5), torch.randint(0, 4, (12,))
    y[[0, 1, 2, 9]] = -100  # which the loss ignores
    return x.to(stand_in_device.SECOND), y.to(stand_in_device.SECOND)


def loss_of(model: nn.Module, pair: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(pair[0]), pair[1])


@on_stand_in_device
def test_the_random_state_of_every_device_is_kept_and_put_back() -> None:
    state = random_state()
    drawn = [torch.rand(2, device=device).cpu() for device in (stand_in_device.FIRST, stand_in_device.SECOND)]
    assert len(state["standin"]) == 2
    put_back(state)
    again = [torch.rand(2, device=device).cpu() for device in (stand_in_device.FIRST, stand_in_device.SECOND)]
    assert all(map(torch.equal, drawn, again))


class Noisy(nn.Module):
    """Draws on the device of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x)


@pytest.mark.parametrize(("more", "cause"), [((), "denominators"), ((Noisy(),), "random numbers")])
@on_stand_in_device
def test_the_cause_of_a_difference_is_found_there_too(more: tuple[nn.Module, ...], cause: str) -> None:
    found = check_equivalence(net(*more), loss_of, data(), normalize="steps")
    assert cause in [one.kind for one in found.causes]


@pytest.mark.parametrize(("on_nonfinite", "expected"), [("ignore", []), ("error", ["_local_scalar_dense"] * 2)])
@on_stand_in_device
def test_a_step_waits_only_where_its_gradient_is_looked_at(on_nonfinite: Any, expected: list[str]) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    acc = GradientAccumulator(
        model, optimizer, accumulation_steps=3, normalize="samples", max_norm=1.0, on_nonfinite=on_nonfinite
    )
    batches = [torch.randn(4, 5).to(stand_in_device.SECOND) for _ in range(6)]
    with counted_waits() as waits:
        for window in acc.windows(batches):
            for batch in window:
                acc.backward(model(batch).square().mean(), reduction="mean")
            acc.step()
    assert waits == expected
