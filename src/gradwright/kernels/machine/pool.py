"""Threads of our own for kernels: as many as torch would take, and none before they are wanted.

See NOTE [No interpreter] and NOTE [One launch at a time] in ``crew``. After a fork the child begins without threads,
and gets its own when it wants them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from functools import cache
from typing import Any, Final

from gradwright.kernels.machine import crew
from gradwright.kernels.machine.compiling import Kernel, addresses

_LAUNCH: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

# These come from what a thread itself does; blocked, they would end the process without a word of where.
_OWN_FAULTS: Final = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT")


class Crew:
    """Threads that wait for launches. ``workers``: how many there are; ``why``: why there can't be more."""

    def __init__(self) -> None:
        self.workers = 0
        self.why = ""
        self._lock = threading.RLock()
        self._launch: Any = None
        self._memory: Any = None
        self._main = 0

    def run(self, kernel: Kernel, parameters: int, workers: int) -> None:
        """Run a kernel on the calling thread and up to ``workers`` others."""
        if self.workers < workers and not self.why:
            self._grow(workers)
        workers = min(workers, self.workers)
        if workers > 0:
            self._launch(self._memory, kernel.address, parameters, workers)
        else:
            kernel.function(parameters)

    def _grow(self, workers: int) -> None:
        with self._lock:
            try:
                if self._memory is None:
                    self._begin()
                while self.workers < workers and not self.why:
                    self._enlist()
            except (OSError, RuntimeError, AttributeError) as error:
                self.why = f"{type(error).__name__}: {error}"

    def _begin(self) -> None:
        self._main, launch = _code()
        self._launch = _LAUNCH(launch)
        memory = ctypes.create_string_buffer(crew.MEMORY_BYTES)
        system, start = ctypes.CDLL(None), ctypes.addressof(memory)
        for place in (crew.MUTEX, crew.TURN):
            system.pthread_mutex_init(ctypes.c_void_p(start + place), None)
        for place in (crew.WAKE, crew.DONE):
            system.pthread_cond_init(ctypes.c_void_p(start + place), None)
        self._memory = memory

    def _enlist(self) -> None:
        """One thread more, which leaves signals to Python's threads."""
        system, thread = ctypes.CDLL(None), ctypes.c_void_p()
        own = {getattr(signal, name) for name in _OWN_FAULTS if hasattr(signal, name)}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - own)
        try:
            failed = system.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(self._main), self._memory)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if failed:
            self.why = f"the system gives no more threads ({os.strerror(failed)})"
        else:
            system.pthread_detach(thread)
            self.workers += 1


@cache
def _code() -> tuple[int, ...]:
    return addresses(crew.CODE, (crew.WORKER, crew.LAUNCH))  # a forked child has it too


_crew = Crew()


def run(kernel: Kernel, parameters: object, address: int, threads: int) -> None:
    """Run a kernel on its parameters, which lie at ``address``, on the calling thread and ``threads`` - 1 others.

    When it returns, every block is done and no other thread uses ``parameters`` or what they point to.
    ``threads``: as many as may take part; with 1, none is ever started.
    Cost beyond the kernel's own: 0.5 us with one thread. With two, 7 us to wake the other, which begins some 20 us
    later: that pays from 50 us of work on, and 800 us become 430 (2 cores, nothing else running). The first launch on
    several threads takes 10 ms.
    """
    if threads > 1:
        _crew.run(kernel, address, threads - 1)
    else:
        kernel.function(address)


def describe() -> str:
    """In words: how many threads there are beside the callers', and why there can't be more."""
    return f"{_crew.workers} threads of kernels" + (f"; no more: {_crew.why}" if _crew.why else "")


def _in_child() -> None:
    global _crew
    _crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
