"""Work in a forked child of its own, within limits of time and memory: the only honest "it never ends"."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, NoReturn, TypeVar

from gradwright.ground import clock, confined

T = TypeVar("T")

# By name: what a child takes home beside its value, and what its parent does with it.
_keepsakes: dict[str, tuple[Callable[[], object], Callable[[Any], None]]] = {}

CAN_FORK = hasattr(os, "fork") and sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of the child: a value, or why there is none. ``value`` is ``None`` unless ``how == "returned"``."""

    how: Literal["returned", "raised", "out of time", "out of memory", "died"]
    value: T | None = None
    why: str = ""
    seconds: float = 0.0


def in_child(work: Callable[[], T], *, seconds: float, memory_bytes: int = 4 << 30) -> Outcome[T]:
    """Run ``work`` in a forked child and bring its value back (it must pickle).

    The child has one thread, no standard streams, the default signal handlers, and may take ``memory_bytes`` of address
    space beyond what it was born with. Nothing that it does to tensors, modules or random state reaches the parent, and
    it may change no file (see ``confined``).
    ``seconds`` are those of an idle machine: time in which the child was ready to run and other work had the cores is
    not counted (where the system tells; elsewhere they are the clock's), nor here in ``clock.now``.
    Cost: one fork (about 10 ms with torch loaded) and the pickle.

    >>> in_child(lambda: 6 * 7, seconds=10).value
    42
    >>> in_child(lambda: 1 / 0, seconds=10).how
    'raised'
    """
    started = time.monotonic()
    receive, send = os.pipe()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    before = clock.not_counted()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        _be_child(work, send, seconds, memory_bytes)
    os.close(send)
    try:
        block = _read_until(receive, pid, started + seconds)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(receive)
    spent = time.monotonic() - started
    if not block:
        clock.leave_out(clock.waited(pid))
    if block is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return Outcome("out of time", why=f"it had not ended after {seconds:.0f} s", seconds=spent)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not block:
        name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        return Outcome("died", why=f"the process trying it was ended by {name}", seconds=spent)
    how, value, why, left_out, kept = pickle.loads(block)
    for name, what in kept.items():
        _keepsakes[name][1](what)
    clock.leave_out(max(0.0, left_out - before))
    return Outcome(how, value, why, spent)


def take_home(name: str, collect: Callable[[], object], receive: Callable[[Any], None]) -> None:
    """From now on a child calls ``collect`` at its end, and its parent ``receive`` with what that gave (by pickle).

    For what is worth finding once, as a child leaves nothing behind. Not from a child that is ended or dies.
    """
    _keepsakes[name] = collect, receive


def is_child() -> bool:
    """Whether this process is a child of ``in_child``."""
    return _tried.is_child


def torch_survives_fork() -> bool:
    """Whether torch can compute, and go backward, in a forked child of this process as it is now.

    It can't once an accelerator is in use, nor once autograd has threads of its own: torch starts them for backwards
    that are nested deeper than 60 (reentrant checkpoints), and, in a build for CUDA where there is no GPU, at a first
    backward after a ``FakeTensorMode`` (``torch.compile``). No public name tells; so a child tries, and is asked again
    whenever this process has other threads than before. Cost: a fork then, microseconds otherwise.

    >>> torch_survives_fork()
    True
    """
    import torch

    from gradwright.ground.random_states import accelerators_in_use

    is_gpu_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch has no types here
    if not CAN_FORK or is_gpu_in_use or accelerators_in_use():
        return False
    threads = {entry.name for entry in Path("/proc/self/task").glob("*")}
    if not _tried.is_child and (not threads or threads != _tried.threads):
        _tried.threads, _tried.survives = threads, in_child(_go_backward, seconds=20).how != "raised"
    return _tried.is_child or _tried.survives


@dataclass
class _Tried:
    """What is known of backwards in children."""

    #: The threads of this process when a child last tried.
    threads: set[str]
    #: Whether it could.
    survives: bool
    #: Whether this process is such a child.
    is_child: bool


_tried = _Tried(set(), survives=False, is_child=False)


def _go_backward() -> None:
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        torch.autograd.backward(torch.ones((), requires_grad=True) * 2)


def _read_until(stream: int, writer: int, deadline: float) -> bytes | None:
    """Everything up to end of file, or ``None`` when the deadline comes first: later by what the writer waited."""
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            left += clock.waited(writer)
        if left <= 0:
            return None
        if not select.select([stream], [], [], left)[0]:
            continue
        part = os.read(stream, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _be_child(work: Callable[[], object], send: int, seconds: float, memory_bytes: int) -> NoReturn:
    try:
        _tried.is_child = True
        gc.disable()  # finalizers of the parent's objects are the parent's
        _shed_parent(seconds, memory_bytes)
        try:
            message: tuple[str, object, str] = ("returned", work(), "")
        except MemoryError:
            message = ("out of memory", None, f"it asked for more than {memory_bytes >> 20} MiB")
        except BaseException as error:
            if "can't allocate memory" in str(error):
                message = ("out of memory", None, f"it asked for more than {memory_bytes >> 20} MiB")
            else:
                message = ("raised", None, _last_words(error))
        rest = clock.not_counted(), {name: collect() for name, (collect, _) in _keepsakes.items()}
        try:
            block = pickle.dumps((*message, *rest))
        except Exception as error:
            block = pickle.dumps(("raised", None, f"the result does not pickle: {error}", *rest))
        with open(send, "wb", closefd=True) as stream:
            stream.write(block)
    finally:
        os._exit(0)


def _last_words(error: BaseException) -> str:
    """The exception in one line, with the innermost place, for a report that says why nothing is known."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != confined.__file__]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _shed_parent(seconds: float, memory_bytes: int) -> None:
    import resource

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(n, "rw"[n > 0], closefd=False)) for n in (0, 1, 2))
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory_bytes, now + memory_bytes))
        cpu = int(seconds) + 5 + int(sum(os.times()[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))  # so that an orphan ends too
    if "torch" in sys.modules:
        # The OpenMP pool did not survive the fork: one thread is all that can work here.
        sys.modules["torch"].set_num_threads(1)
    confined.confine()
