"""The random states of a process: torch's, of its devices too, Python's, NumPy's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

RandomState = dict[str, Any]


def random_state() -> RandomState:
    """In what ``torch.load(weights_only=True)`` reads."""
    return readable(taken())


def taken() -> RandomState:
    """The same, quickly: NumPy's as an array, which such a load does not read."""
    state: RandomState = {"cpu": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state_all()
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
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, keys, *rest))
