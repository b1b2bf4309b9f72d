"""The states of the generators of every device are read and put back: also of one that is not the first, nor CUDA."""

from types import SimpleNamespace

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import on_stand_in_device

from gradwright.ground.random_states import (
    CPU,
    RandomState,
    accelerators_in_use,
    drawn_from,
    generator_devices,
    seed_generators,
)


def test_without_an_accelerator_the_cpu_is_all_that_draws() -> None:
    assert torch.cuda.is_available() or accelerators_in_use() == []
    assert generator_devices(torch.ones(2), torch.ones(2, device="meta")) == (CPU,)


@on_stand_in_device
def test_every_device_of_an_accelerator_is_found_and_those_of_tensors_in_order() -> None:
    first, second = stand_in_device.FIRST, stand_in_device.SECOND
    assert accelerators_in_use() == [first, second]
    assert generator_devices(torch.ones(2, device=second), torch.ones(2, device=first)) == (CPU, first, second)
    assert generator_devices(torch.ones(2, device=second)) == (CPU, second)


@on_stand_in_device
def test_what_was_drawn_is_drawn_again_and_the_generator_stands_where_it_stood() -> None:
    second = stand_in_device.SECOND
    began = RandomState.now((CPU, second))
    drawn = torch.rand(3), torch.rand(3, device=second)
    ended = RandomState.now((CPU, second))
    assert not began.equals(ended)
    with drawn_from(began):
        again = torch.rand(3), torch.rand(3, device=second)
    assert all(map(torch.equal, drawn, again)) and ended.equals(RandomState.now(ended.devices))


@on_stand_in_device
def test_what_only_a_device_drew_is_seen() -> None:
    began = RandomState.now((CPU, stand_in_device.SECOND))
    torch.rand(3, device=stand_in_device.FIRST)
    assert began.equals(RandomState.now(began.devices))
    torch.rand(3, device=stand_in_device.SECOND)
    assert not began.equals(RandomState.now(began.devices))


@on_stand_in_device
def test_a_seed_is_every_devices() -> None:
    drawn = []
    for _ in range(2):
        seed_generators(5)
        devices = (CPU, stand_in_device.FIRST, stand_in_device.SECOND)
        drawn.append([torch.rand(3, device=device).cpu() for device in devices])
    assert all(map(torch.equal, *drawn))


def test_a_kind_of_one_device_that_begins_with_its_import_is_seeded_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    state, seeds = [torch.tensor([3], dtype=torch.uint8)], []
    mps = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        manual_seed=seeds.append,
        get_rng_state=lambda device: state[-1],
        set_rng_state=lambda new, device: state.append(new),
    )
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    monkeypatch.setattr(torch, "get_device_module", lambda device: mps)
    before = RandomState.now(accelerators_in_use())
    seed_generators(7)
    state.append(torch.tensor([4], dtype=torch.uint8))
    before.restore()
    assert before.devices == (torch.device("mps", 0),) and seeds == [7] and state[-1].item() == 3
