"""Work in this very process within a time limit: where there is no fork, or a fork would not survive (CUDA)."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from gradwright.ground import clock
from gradwright.ground.forked import Outcome

T = TypeVar("T")


class OutOfTime(BaseException):
    """Raised in the working thread by the watchdog."""


def under_watchdog(work: Callable[[], T], *, seconds: float) -> Outcome[T]:
    """Run ``work`` here; after ``seconds`` of an idle machine it is interrupted at its next Python instruction.

    One long call into C is not interrupted, and a crash ends the process: ``in_child`` is better where it can be had.

    >>> under_watchdog(lambda: 6 * 7, seconds=5).value
    42
    """
    started = clock.now()
    worker = threading.get_ident()
    over, ended = threading.Lock(), threading.Event()
    done = False

    def watch() -> None:
        while (left := started + seconds - clock.now()) > 0:
            if ended.wait(left):
                return
        with over:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker), ctypes.py_object(OutOfTime))

    try:
        threading.Thread(target=watch, daemon=True).start()
        try:
            outcome: Outcome[T] = Outcome("returned", work(), seconds=clock.now() - started)
        except Exception as error:
            outcome = Outcome("raised", why=f"{type(error).__name__}: {error}", seconds=clock.now() - started)
        with over:
            done = True
        return outcome
    except OutOfTime:
        _forget_half_imported()
        return Outcome("out of time", why=f"it had not ended after {seconds:.0f} s", seconds=clock.now() - started)
    finally:
        ended.set()


def _forget_half_imported() -> None:
    """An import that was interrupted takes its package out of ``sys.modules``, but not the parts that were whole by
    then; the next import would find those, and not make them attributes of the new package (sympy is imported so)."""
    for name in sorted(sys.modules):
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            del sys.modules[name]
