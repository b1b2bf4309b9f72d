"""Randomness under control: the same random numbers for every call, and the caller's own state untouched.

NOTE [chance held]: saving and restoring NumPy's and Python's states costs twenty times what seeding them does. Who
makes many calls therefore holds chance once around all of them (``chance_held``); inside, ``reproducible`` only seeds.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gradwright.ground.random_states import CPU, RandomState, accelerators_in_use, seed_generators


class _Holding(threading.local):
    """Is this thread inside ``chance_held``?"""

    now = False


_HOLDING = _Holding()


@contextmanager
def chance_held() -> Iterator[None]:
    """Restore the random states of torch, ``random`` and (where it is loaded) NumPy at the end, whatever happens.

    Held already: nothing more to do. Cost: some 70 µs.
    """
    if _HOLDING.now:
        yield
        return
    numpy = sys.modules.get("numpy")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    torch_state = RandomState.now([CPU, *accelerators_in_use()])
    _HOLDING.now = True
    try:
        yield
    finally:
        _HOLDING.now = False
        torch_state.restore()
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Seed torch, ``random`` and (where it is loaded) NumPy inside; restore their states afterwards.

    See NOTE [chance held].
    """
    if _HOLDING.now:
        _seed(seed)
        yield
        return
    with chance_held():
        _seed(seed)
        yield


def _seed(seed: int) -> None:
    seed_generators(seed)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def signed(shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random numbers of both signs, none near zero: magnitudes uniform in [0.25, 4), float64, on the CPU.

    One-sided or one-hot cotangents hide ``abs``, ``sign`` and ``clamp`` faults; these don't.
    """
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu").mul_(7.5).sub_(3.75)
    if 1 < drawn.numel() <= 64 and bool((drawn > 0).all() | (drawn <= 0).all()):
        drawn.view(-1)[-1].neg_()  # few enough to be of one sign by chance
    return drawn.add_(drawn.sign(), alpha=0.25)
