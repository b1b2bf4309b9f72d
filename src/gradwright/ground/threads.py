"""How many threads torch takes for one operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """No more than ``count`` threads for an operation inside; as before afterwards.

    Small operations are not made faster by a second thread, and on a busy machine each waits for it: a cross entropy
    of 15 elements took 14 ms with two threads beside other work, and 0.1 ms with one (2 shared cores, torch 2.13).

    >>> with at_most(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if before <= count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
