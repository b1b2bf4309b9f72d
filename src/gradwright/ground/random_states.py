"""The states of torch's random generators: the CPU's, and that of every device of an accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

CPU = torch.device("cpu")


def accelerators_in_use() -> list[torch.device]:
    """Every device of the accelerator, where the process has begun to use it. Asking does not begin."""
    kind = torch.accelerator.current_accelerator()
    if kind is None:
        return []
    module = torch.get_device_module(kind)
    if not getattr(module, "is_initialized", module.is_available)():
        return []
    return [torch.device(kind.type, index) for index in range(module.device_count())]


def seed_generators(seed: int) -> None:
    """The CPU's, and those of every device of an accelerator that is in use."""
    torch.default_generator.manual_seed(seed)
    for device in accelerators_in_use()[:1]:
        module = torch.get_device_module(device)
        (getattr(module, "manual_seed_all", None) or module.manual_seed)(seed)  # MPS has one device, and no "all"


def generator_devices(*tensors: Tensor) -> tuple[torch.device, ...]:
    """The devices whose generators a network of these tensors may draw from; the CPU is always one of them."""
    found = {tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")}
    return (CPU, *sorted(found, key=str))


def get_random_state(device: torch.device) -> Tensor:
    """A copy of the state of the device's generator."""
    state: Tensor
    state = torch.get_rng_state() if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)
    return state


def set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


@dataclass(frozen=True)
class RandomState:
    """States of the CPU's generator, and of the generators of the accelerators that are in play."""

    states: tuple[tuple[torch.device, Tensor], ...]

    @staticmethod
    def now(devices: Sequence[torch.device]) -> RandomState:
        """Cost: 1 µs and 5 kB for the CPU, 16 bytes for a CUDA device."""
        return RandomState(tuple((device, get_random_state(device)) for device in devices))

    @property
    def devices(self) -> tuple[torch.device, ...]:
        return tuple(device for device, _ in self.states)

    def equals(self, other: RandomState) -> bool:
        return all(torch.equal(one, two) for (_, one), (_, two) in zip(self.states, other.states, strict=True))

    def restore(self) -> None:
        for device, state in self.states:
            set_random_state(device, state)


@contextmanager
def drawn_from(state: RandomState | None) -> Iterator[None]:
    """Random numbers from ``state`` on; at the end the generators stand where they stood. None: nothing is drawn."""
    if state is None:
        yield
        return
    before = RandomState.now(state.devices)
    state.restore()
    try:
        yield
    finally:
        before.restore()
