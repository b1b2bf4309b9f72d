"""The random states of a process: torch's, of its devices too, Python's, NumPy's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from gradwright.ground.random_states import accelerators_in_use, get_random_state, set_random_state

RandomState = dict[str, Any]


def random_state() -> RandomState:
    """In what ``torch.load(weights_only=True)`` reads."""
    return readable(taken())


def taken() -> RandomState:
    """The same, quickly: NumPy's as an array, which such a load does not read."""
    state: RandomState = {"cpu": torch.get_rng_state(), "python": random.getstate()}
    for device in accelerators_in_use():
        state.setdefault(device.type, []).append(get_random_state(device))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    return state


def readable(state: RandomState) -> RandomState:
    if "numpy" not in state:
        return state
    kind, keys, *rest = state["numpy"]
    return state | {"numpy": (kind, keys.tolist(), *rest)}


def put_back(state: RandomState) -> None:
    torch.set_rng_state(state["cpu"])
    random.setstate(state["python"])
    for kind in state.keys() - {"cpu", "python", "numpy"}:
        for index, of_device in enumerate(state[kind]):
            set_random_state(torch.device(kind, index), of_device)
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, keys, *rest))
