"""Is glibc's malloc the one that serves? Fault by fault told in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.ground import allocator
from gradwright.ground.forked import in_child

STAND_IN = """
#include <stddef.h>
extern void *memalign(size_t, size_t);
int posix_memalign(void **place, size_t alignment, size_t size) { return !(*place = memalign(alignment, size)); }
"""


def test_glibc_serves_here():
    assert allocator.glibc_version() == os.confstr("CS_GNU_LIBC_VERSION").removeprefix("glibc ")
    assert allocator.stand_in() == ""


@pytest.mark.parametrize("answer", [ValueError, OSError, "musl 1.2", None])
def test_another_c_library_is_no_glibc(answer: object, monkeypatch: pytest.MonkeyPatch):
    def confstr(name: str) -> object:
        if isinstance(answer, type):
            raise answer
        return answer

    monkeypatch.setattr(os, "confstr", confstr)
    assert allocator.glibc_version() == ""


def test_a_system_without_confstr_has_no_glibc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "confstr")
    assert allocator.glibc_version() == ""


def test_an_option_is_set_and_a_wrong_value_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert in_child(lambda: allocator.set_option("M_MMAP_THRESHOLD", 1 << 30), seconds=60).value is True
    # The one option whose value every version looks at: M_MXFAST, which may be 160 at most.
    monkeypatch.setitem(allocator.OPTIONS, "M_MXFAST", 1)
    assert in_child(lambda: allocator.set_option("M_MXFAST", 10_000), seconds=60).value is False


def test_a_preloaded_allocator_is_named(tmp_path: Path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "stand_in.c").write_text(STAND_IN)
    library = tmp_path / "stand_in.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "stand_in.c"], check=True)
    program = "from gradwright.kernels.freed_memory import retain_freed_memory as r; print(r())"
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True
    )
    assert ran.stderr == ""
    assert (
        ran.stdout == f"retain_freed_memory does nothing here: buffers come from {library}, not from glibc's malloc\n"
    )
