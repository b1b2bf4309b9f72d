"""The state of Python's and NumPy's random numbers at the start of a run, recorded and put back.

Torch starts from a fixed seed unless the script seeds it. What a script draws from the system's own entropy
(``np.random.default_rng()``, ``torch.seed()``) can't be had again.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from typing import Any

from gradwright.doctor.launch import on_import_of


class Randomness:
    """``python`` and ``numpy``: the states as JSON data; ``numpy`` is ``None`` until NumPy is loaded."""

    def __init__(self) -> None:
        version, state, gauss = random.getstate()
        self.python: Any = [version, list(state), gauss]
        self.numpy: Any = None

    def record_numpy(self) -> Callable[[], None]:
        """As soon as it is imported. Returns what takes the wait back."""

        def look() -> None:
            with contextlib.suppress(Exception):  # it is the script's import that would fail
                name, state, *rest = sys.modules["numpy"].random.get_state()
                self.numpy = [name, [int(word) for word in state], *rest]

        return on_import_of("numpy", look)


def put_back(python: Any, numpy: Any) -> Callable[[], None]:
    """Start as the first run did: Python's at once, NumPy's when it is imported."""
    if python is not None:
        version, state, gauss = python
        random.setstate((version, tuple(state), gauss))

    def start() -> None:
        if numpy is not None:
            sys.modules["numpy"].random.set_state(tuple(numpy))

    return on_import_of("numpy", start)
