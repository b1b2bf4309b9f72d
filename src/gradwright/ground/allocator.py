"""glibc's malloc, where tensors on the CPU get their memory on most Linux systems: is it there, and its options."""

from __future__ import annotations

import ctypes
import os
from typing import Final

# malloc.h. A value is a C int.
OPTIONS: Final = {"M_TRIM_THRESHOLD": -1, "M_MMAP_THRESHOLD": -3, "M_MMAP_MAX": -4}


def glibc_version() -> str:
    """``"2.36"``; ``""`` where the C library is another (musl, macOS, Windows)."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):  # no confstr here, or none of that name
        return ""
    return version if name == "glibc" else ""


def set_option(name: str, value: int) -> bool:
    """``mallopt``: sets an option for the whole process. False: this glibc refuses the value."""
    return bool(_process().mallopt(OPTIONS[name], value))


def give_back() -> None:
    """``malloc_trim(0)``: every free page goes back to the system, once; what is freed later is kept as before."""
    _process().malloc_trim(ctypes.c_size_t(0))


def stand_in() -> str:
    """The file of the library that serves allocations in glibc's place (jemalloc, tcmalloc, preloaded); "": none does.

    torch takes its buffers from ``posix_memalign``.
    """
    used = _address(_process().posix_memalign)
    return "" if used == _address(ctypes.CDLL("libc.so.6").posix_memalign) else _file_of(used)


def _process() -> ctypes.CDLL:
    """Functions as everything in this process finds them."""
    return ctypes.CDLL(None)


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # a function of a CDLL


class _Place(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(address: int) -> str:
    place = _Place()
    found = _process().dladdr(ctypes.c_void_p(address), ctypes.byref(place))
    return os.fsdecode(place.file) if found and place.file else "another library"
