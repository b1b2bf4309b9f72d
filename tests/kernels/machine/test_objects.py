"""Object code kept on disk: found again as it was, or not at all; the disk may do what it likes."""

import os
import resource
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kernels.machine.by_hand import Call, scaled, times

from gradwright.kernels.machine import compiling, objects
from gradwright.kernels.machine.compiling import kernel

KEY, OTHER = "ab" * 32, "cd" * 32
CODE = bytes(range(256)) * 4
NOBODY = 65534


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Whose parents everybody may pass."""
    where = Path(tempfile.mkdtemp())
    where.chmod(0o755)
    yield where
    where.chmod(0o755)
    shutil.rmtree(where)


def in_child(work: Callable[[], bool]) -> bool:
    """Whether ``work`` said so, in a forked child that may do to itself what it likes."""
    child = os.fork()
    if child == 0:
        answer = 2
        try:
            answer = 0 if work() else 1
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_kept_is_found() -> None:
    objects.keep(KEY, CODE, "the source")
    assert objects.found(KEY) == CODE
    assert objects.found(OTHER) is None


def test_the_source_lies_beside_it_for_people(cache: Path) -> None:
    objects.keep(KEY, CODE, "the source")
    assert (cache / f"{KEY}.py").read_text() == "the source"


def test_the_source_on_disk_is_never_run(cache: Path) -> None:
    made = kernel(scaled(3), "triple")
    (cache / f"{made.key}.py").write_text("raise SystemExit('it was run')")
    compiling._kernels.clear()
    assert Call().run(kernel(scaled(3), "triple")) == times(3)
    (cache / f"{made.key}.o").unlink()
    compiling._kernels.clear()
    assert Call().run(kernel(scaled(3), "triple")) == times(3)
    assert (cache / f"{made.key}.py").read_text() == scaled(3)


def test_it_is_private_to_its_user(cache: Path) -> None:
    before = os.umask(0)
    try:
        objects.keep(KEY, CODE, "the source")
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o600}


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flipped(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[-10] ^= 1
    file.write_bytes(text)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def only_a_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:92])


def of_another_format(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"kernel 1", b"kernel 2"))


def of_another_kernel(file: Path) -> None:
    objects.keep(OTHER, CODE, "another source")
    shutil.copy(file.parent / f"{OTHER}.o", file)


def writable_by_others(file: Path) -> None:
    file.chmod(0o622)


def a_symbolic_link(file: Path) -> None:
    file.rename(file.parent / "elsewhere")
    file.symlink_to(file.parent / "elsewhere")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


FAULTS = [
    truncated,
    flipped,
    emptied,
    only_a_header,
    of_another_format,
    of_another_kernel,
    writable_by_others,
    a_symbolic_link,
    a_pipe,
    a_directory,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_as_it_was_is_not_found(fault: Callable[[Path], None], cache: Path) -> None:
    objects.keep(KEY, CODE, "the source")
    fault(cache / f"{KEY}.o")
    assert objects.found(KEY) is None


@pytest.mark.parametrize("fault", FAULTS)
def test_such_a_file_is_replaced_by_the_kernel_compiled_anew(
    fault: Callable[[Path], None], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kernel(scaled(3), "triple")
    fault(cache / f"{first.key}.o")
    compiling._kernels.clear()
    again = kernel(scaled(3), "triple")
    assert (again.origin, Call().run(again)) == ("compiled", times(3))
    compiling._kernels.clear()
    assert kernel(scaled(3), "triple").origin == ("compiled" if fault is a_directory else "disk")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_write_into_is_not_used(mode: int, cache: Path) -> None:
    objects.keep(KEY, CODE, "the source")
    cache.chmod(mode)
    assert objects.found(KEY) is None
    objects.keep(OTHER, CODE, "another source")
    assert not (cache / f"{OTHER}.o").exists()
    assert objects.describe() == (
        f"kernels are not kept on disk: {cache} may be written by others (mode {mode:o}; chmod go-w mends it)"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used_except_root_s(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADWRIGHT_CACHE_DIR", str(open_directory))
    objects.keep(KEY, CODE, "the source")
    (open_directory / f"{KEY}.o").chmod(0o644)

    def found_as(user: int) -> bool:
        return in_child(lambda: (os.seteuid(user), objects.found(KEY) == CODE)[1])  # type: ignore[func-returns-value]

    assert found_as(0)
    assert found_as(NOBODY)  # an image whose kernels were compiled when it was made
    os.chown(open_directory, NOBODY, NOBODY)
    assert found_as(NOBODY)
    assert not found_as(0)
    assert "belongs to another user" in objects.describe()


def test_a_read_only_directory_is_read(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = open_directory / "kernels"
    monkeypatch.setenv("GRADWRIGHT_CACHE_DIR", str(where))
    made = kernel(scaled(3), "triple")
    (where / f"{made.key}.o").chmod(0o644)
    where.chmod(0o555)

    def in_it() -> bool:
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        compiling._kernels.clear()
        old, new = kernel(scaled(3), "triple"), kernel(scaled(4), "fourfold")
        return (old.origin, new.origin) == ("disk", "compiled") and Call().run(new) == times(4)

    assert in_child(in_it)
    assert len(list(where.iterdir())) == 2


def test_on_a_full_disk_nothing_is_kept_and_nothing_is_left(cache: Path) -> None:
    cache.mkdir(0o700)

    def in_it() -> bool:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not a byte can be written
        return Call().run(kernel(scaled(3), "triple")) == times(3)

    assert in_child(in_it)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"GRADWRIGHT_CACHE_DIR": ""}, "GRADWRIGHT_CACHE_DIR is empty"),
        ({"GRADWRIGHT_CACHE_DIR": "/proc/kernels"}, "/proc/kernels: No such file or directory"),
        ({"GRADWRIGHT_CACHE_DIR": __file__}, f"{__file__}: Not a directory"),
        ({"GRADWRIGHT_CACHE_DIR": f"{__file__}/kernels"}, f"{__file__}/kernels: Not a directory"),
        ({"HOME": "/no/such/home"}, "there is no home directory /no/such/home"),
    ],
    ids=["empty", "can't be made", "a file", "below a file", "no home"],
)
def test_without_a_directory_kernels_are_compiled_and_the_reason_is_told(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRADWRIGHT_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert objects.describe() == f"kernels are not kept on disk: {said}"
    assert Call().run(kernel(scaled(3), "triple")) == times(3)
    compiling._kernels.clear()
    assert kernel(scaled(3), "triple").origin == "compiled"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GRADWRIGHT_CACHE_DIR": "{}/chosen", "XDG_CACHE_HOME": "{}/shared"}, "chosen"),
        ({"XDG_CACHE_HOME": "{}/shared"}, "shared/gradwright/kernels"),
        ({"XDG_CACHE_HOME": "relative"}, ".cache/gradwright/kernels"),
        ({}, ".cache/gradwright/kernels"),
    ],
    ids=["chosen", "shared", "relative", "home"],
)
def test_the_directory_is_the_one_that_the_environment_names(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GRADWRIGHT_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    objects.keep(KEY, CODE, "the source")
    assert objects.describe() == f"kernels are kept in {tmp_path / expected}"
    assert (tmp_path / expected / f"{KEY}.o").exists()


def key(number: int) -> str:
    return f"{number:064x}"


def aged(cache: Path, number: int, days: float) -> None:
    for path in cache.glob(f"{key(number)}.*"):
        os.utime(path, (0, time.time() - days * 86_400))


@pytest.mark.parametrize("bound", ["MOST_FILES", "MOST_BYTES"])
def test_above_its_bounds_what_was_not_used_for_longest_goes_first(
    bound: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        objects.keep(key(number), CODE, "")
        aged(cache, number, days=10 + number)
    assert objects.found(key(7)) == CODE  # used: the youngest of all now
    monkeypatch.setattr(objects, bound, {"MOST_FILES": 16, "MOST_BYTES": 8 * (len(CODE) + 92)}[bound])
    objects._pruned.clear()
    objects.keep(key(8), CODE, "")
    assert [number for number in range(9) if objects.found(key(number))] == [0, 1, 2, 3, 7, 8]


def test_a_process_prunes_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.keep(KEY, CODE, "")
    monkeypatch.setattr(objects, "_prune", lambda directory: pytest.fail("pruned again"))
    objects.keep(OTHER, CODE, "")
    assert objects.found(OTHER) == CODE


def test_what_a_killed_process_left_half_written_is_removed_in_time(cache: Path) -> None:
    cache.mkdir(0o700)
    for name, days in {".old.tmp": 2, ".young.tmp": 0}.items():
        (cache / name).write_bytes(b"half")
        os.utime(cache / name, (0, time.time() - days * 86_400))
    objects.keep(KEY, CODE, "")
    assert {path.name for path in cache.glob(".*")} == {".young.tmp"}
