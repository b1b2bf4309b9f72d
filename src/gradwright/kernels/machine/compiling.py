"""From a kernel's source to a function that can be called: by memory, by disk, by LLVM, in this order.

NOTE [Forks]: a child has one thread, and locks that another thread held at the fork are never released in it. So a
fork waits for a compilation that is going on in another thread (a second or so), and the child begins with a lock of
its own. llvmlite has a lock too: should a thread that isn't ours hold it at the fork, the child does without kernels.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final, Literal

from gradwright.errors import GradwrightError
from gradwright.ground import forked
from gradwright.kernels.machine import first_kernel, objects
from gradwright.kernels.machine.processor import ENTRY, addresses_of, object_code, parsed, processor

OLDEST_LLVMLITE: Final = (0, 50)
NEWEST_LLVMLITE: Final = (0, 50)  # both: what the tests have met; a newer one is tried at the first kernel

_FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64)  # calls without the interpreter's lock
_FORK_WAITS_SECONDS: Final = 30.0

_Compiled = tuple[str, bytes, str]  # key, object code, source
_Kept = tuple[tuple[Literal["memory", "disk"], Callable[[str], bytes | None]], ...]

_kernels: dict[str, Kernel] = {}
_from_children: dict[str, bytes] = {}
_for_parent: list[_Compiled] = []
_refused: dict[str, str] = {}
_lock = threading.RLock()
_lost = ""  # why a forked child does without
_suspended = ""  # why everybody does, for a while


class NoMachineCode(GradwrightError):
    """Why a kernel can't be had; what needs it takes plain torch instead, and says so."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Machine code: ``kernel(address)`` runs it on the int64 parameters at an address.

    Other threads run meanwhile.  ``origin``: where it came from; ``seconds``: how long that took.
    Cost: 0.3 us and what the code does.
    """

    name: str
    key: str
    address: int
    origin: Literal["memory", "disk", "compiled"]
    seconds: float
    function: Any = field(repr=False)

    def __call__(self, parameters: int) -> None:
        self.function(parameters)


def kernel(source: str, name: str) -> Kernel:
    """The machine code of a text that defines ``kernel(parameters)``; the text must be ours, for it is run.

    Compiled at most once by a process, however many threads ask, and kept on disk (``machine.objects``).
    Cost: nothing to speak of the second time; from disk 1 ms, and 25 ms once for llvmlite; compiled 0.1 s or so.
    Raises: NoMachineCode, which says why.
    """
    if _suspended:
        raise NoMachineCode(_suspended)
    known = _kernels.get(source)
    if known is not None:
        return known
    with _lock:
        known = _kernels.get(source)
        if known is not None:
            return known
        if why := available() or _find_fault_of_llvmlite() or _refused.get(source):
            raise NoMachineCode(why)
        try:
            made = _made(source, name)
        except Exception as error:  # whatever LLVM met: plain torch can do without them
            _refused[source] = f"the kernel could not be compiled: {type(error).__name__}: {_first_line(error)}"
            raise NoMachineCode(_refused[source]) from error
        _kernels[source] = replace(made, origin="memory", seconds=0.0)
        return made


def addresses(text: str, entries: Sequence[str]) -> tuple[int, ...]:
    """Where functions of a text in LLVM's language begin, once compiled and loaded. Raises: RuntimeError."""
    if _lost:
        raise RuntimeError(_lost)
    with _lock:
        return addresses_of(entries, object_code(parsed(text)))


@contextmanager
def without_machine_code(why: str) -> Iterator[None]:
    """Inside, no kernel is to be had: where each would be run a few times only, plain torch is sooner done."""
    global _suspended
    before, _suspended = _suspended, why
    try:
        yield
    finally:
        _suspended = before


def is_suspended() -> bool:
    """Is what runs now no measure of what will run later?"""
    return bool(_suspended)


def available() -> str | None:
    """Why this process can have no machine code; ``None`` if it can. Nothing is imported to find out.

    >>> available() is None or isinstance(available(), str)
    True
    """
    return _lost or _llvmlite_unfit()


@cache
def _llvmlite_unfit() -> str | None:
    try:
        is_there = util.find_spec("llvmlite") is not None
    except ValueError:  # somebody has put None in its place, so that it can't be imported
        is_there = False
    if not is_there:
        return "llvmlite is not installed (pip install llvmlite)"
    version = _version_of_llvmlite()
    if _numbers(version) < OLDEST_LLVMLITE:
        return f"llvmlite {version} is too old: {'.'.join(map(str, OLDEST_LLVMLITE))} or later is needed"
    return None


@cache
def _find_fault_of_llvmlite() -> str | None:
    """Why one that is newer than what the tests have met is not relied on: a kernel with known results is compiled.

    Cost: nothing for those that were met; else once 0.1 s, 2 ms in later processes.
    """
    version = _version_of_llvmlite()
    if _numbers(version) <= NEWEST_LLVMLITE:
        return None
    try:
        fault = first_kernel.find_fault(_made(first_kernel.SOURCE, "first_kernel"))
    except Exception as error:  # whatever is named or done in another way there: plain torch can do without it
        fault = f"{type(error).__name__}: {_first_line(error)}"
    if fault is None:
        return None
    met = ".".join(map(str, NEWEST_LLVMLITE))
    return f"llvmlite {version} is newer than {met}, the newest that was tested, and fails: {fault}"


def _version_of_llvmlite() -> str:
    try:
        return metadata.version("llvmlite")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _made(source: str, name: str) -> Kernel:
    started = time.perf_counter()
    key = _key(source)

    def loaded(code: bytes, origin: Literal["memory", "disk", "compiled"]) -> Kernel:
        (address,) = addresses_of((ENTRY,), code)
        return Kernel(name, key, address, origin, time.perf_counter() - started, _FUNCTION(address))

    kept: _Kept = (("memory", _from_children.get), ("disk", objects.found))
    for origin, find in kept:
        if code := find(key):
            with suppress(RuntimeError):  # it needs a function of a library that isn't loaded here: compiled anew
                return loaded(code, origin)
    from gradwright.kernels.machine.lowering import lowered

    code = lowered(source)
    made = loaded(code, "compiled")
    _keep([(key, code, source)])
    return made


def _keep(compiled: list[_Compiled]) -> None:
    """On disk; in a forked child, which may write nothing, for its parent and the children after it."""
    if forked.is_child():
        _for_parent.extend(compiled)
        return
    for key, code, source in compiled:
        objects.keep(key, code, source)


def _take_over(compiled: list[_Compiled]) -> None:
    _from_children.update((key, code) for key, code, _ in compiled)
    _keep(compiled)


forked.take_home("kernels", lambda: _for_parent, _take_over)


def _key(source: str) -> str:
    """Of all that object code depends on."""
    this = processor()
    parts = (*_versions(), this.triple, this.name, this.features, source)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    """Of LLVM, and of this room, whose instructions kernels use."""
    room = Path(__file__).parent
    texts = "".join(path.read_text("utf-8") for path in sorted(room.rglob("*.py")))
    return (_version_of_llvmlite(), hashlib.sha256(texts.encode()).hexdigest())


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


_forking = threading.local()


def _before_fork() -> None:
    _forking.holds = False
    _forking.holds = _lock.acquire(timeout=_FORK_WAITS_SECONDS)


def _in_parent() -> None:
    if _forking.holds:
        _lock.release()


def _in_child() -> None:
    global _lock, _lost
    _lock = threading.RLock()
    _for_parent.clear()  # that of a child's child is not its parent's
    if not _forking.holds:
        _lost = "another thread was compiling a kernel when this process was forked"
    elif _is_llvm_held():
        _lost = "another thread was using LLVM when this process was forked"


def _is_llvm_held() -> bool:
    """Is llvmlite's lock held by a thread that this child does not have?"""
    llvmlite = sys.modules.get("llvmlite.binding.ffi")
    lock = llvmlite and llvmlite.lib._lock._lock
    if not lock:
        return False
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
