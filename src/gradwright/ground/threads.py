"""How many threads torch takes for one operation; work in a thread that none of the caller's modes reach."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


def run_unmoded(work: Callable[[], T]) -> T:
    """What ``work`` returns in a thread of its own.

    Gradient, inference and autocast modes, modes of torch.overrides and of dispatch, a default device, hooks on saved
    tensors, levels of torch.func: torch keeps all of these per thread, so that a new thread begins without any. While
    torch is being imported none of them can be on, and another thread would wait for the import, which waits for it:
    then, and where no thread can be started, the caller's own does the work.
    Raises: what ``work`` raises.

    >>> with torch.no_grad():
    ...     run_unmoded(torch.is_grad_enabled)
    True
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="gradwright-asks-torch")
    try:
        if getattr(torch.__spec__, "_initializing", False):
            run()
        else:
            thread.start()
    except RuntimeError:  # there can be none, as when the interpreter ends
        run()
    if thread.ident is not None:
        thread.join()
    if errors:
        raise errors[0]
    return results[0]


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
