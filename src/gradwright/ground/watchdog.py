"""Work in this very process within a time limit: where there is no fork, or a fork would not survive (CUDA).

NOTE [threads of the engine]: an exception that is set for a thread waits for that thread's next Python instruction. A
backward on an accelerator runs in a thread of autograd's own, for which its caller waits in C++. So it is set for that
thread; the engine hands it on to the caller. Threads that ran Python before the work began are somebody else's.

NOTE [a signal that stays]: CPython (up to 3.12) has one flag for all threads that says "an exception was set for a
thread". It goes out when one is raised, not when one is taken back: then the interpreter looks at every call in vain,
and in 3.11, under ``sys.setprofile`` or ``sys.settrace``, begins a function again and again for ever. So one is raised
in the own thread afterwards, and caught.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from gradwright.ground import clock
from gradwright.ground.forked import Outcome

T = TypeVar("T")

_ATTEMPTS, _A_WHILE = 5, 1.0  # to interrupt what runs elsewhere, and seconds for it to come back


class OutOfTime(BaseException):
    """Raised in the working thread by the watchdog."""


class _Settled(BaseException):
    """See NOTE [a signal that stays]."""


def under_watchdog(work: Callable[[], T], *, seconds: float) -> Outcome[T]:
    """Run ``work`` here; after ``seconds`` of an idle machine it is interrupted at its next Python instruction.

    One long call into C is not interrupted, and a crash ends the process: ``in_child`` is better where it can be had.
    Python that a backward on an accelerator runs is: see NOTE [threads of the engine].

    >>> under_watchdog(lambda: 6 * 7, seconds=5).value
    42
    """
    started = clock.now()
    worker, others = threading.get_ident(), set(sys._current_frames())
    over, ended = threading.Lock(), threading.Event()
    interrupted: set[int] = set()
    done = False

    def watch() -> None:
        while (left := started + seconds - clock.now()) > 0:
            if ended.wait(left):
                return
        for _ in range(_ATTEMPTS):
            with over:
                if done:
                    return
                for thread in (elsewhere := _find_foreign_threads() - others) or {worker}:
                    _set_exception(thread, OutOfTime)
                interrupted.update(elsewhere)
            if not elsewhere or ended.wait(_A_WHILE):
                return
        with over:
            if not done:
                _set_exception(worker, OutOfTime)

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
        with over:
            done = True
        _forget_half_imported()
        return Outcome("out of time", why=f"it had not ended after {seconds:.0f} s", seconds=clock.now() - started)
    finally:
        ended.set()
        if interrupted:
            _take_back(interrupted)


def _take_back(threads: set[int]) -> None:
    """What these did not come to must not meet a later backward."""
    for thread in threads:
        _set_exception(thread, None)
    with contextlib.suppress(_Settled):
        _set_exception(threading.get_ident(), _Settled)
        while True:  # it is raised here
            pass


def _find_foreign_threads() -> set[int]:
    """Threads that run Python now, and that Python did not start: autograd's."""
    started_in = threading.Thread.run.__code__.co_filename
    main = threading.main_thread().ident
    frames = sys._current_frames().items()
    return {thread for thread, frame in frames if thread != main and _outermost_file(frame) != started_in}


def _outermost_file(frame: FrameType) -> str:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def _set_exception(thread: int, error: type[BaseException] | None) -> None:
    """Raised at that thread's next Python instruction; None: what is set and not raised yet is taken back."""
    given = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)


def _forget_half_imported() -> None:
    """An import that was interrupted takes its package out of ``sys.modules``, but not the parts that were whole by
    then; the next import would find those, and not make them attributes of the new package (sympy is imported so)."""
    for name in sorted(sys.modules):
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            del sys.modules[name]
