"""Randomness under control: the same random numbers for every call, and the caller's own state untouched."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Seed torch, ``random`` and (where it is loaded) NumPy inside; restore their states afterwards."""
    numpy = sys.modules.get("numpy")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]  # torch has no types here
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy is not None:
                numpy.random.set_state(numpy_state)


def signed(shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random numbers of both signs, none near zero: magnitudes uniform in [0.25, 4), float64, on the CPU.

    One-sided or one-hot cotangents hide ``abs``, ``sign`` and ``clamp`` faults; these don't.
    """
    size = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") * 3.75 + 0.25
    sign = torch.randint(0, 2, shape, generator=generator, device="cpu").to(torch.float64) * 2 - 1
    if sign.numel() > 1 and bool((sign == sign.flatten()[0]).all()):
        sign.view(-1)[-1] *= -1  # few enough to be of one sign by chance
    return size * sign
