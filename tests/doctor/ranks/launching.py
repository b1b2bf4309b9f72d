"""Starts ranks: by torchrun as users do, or one by one as mpirun does; and looks whether any is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.warm import COMMAND

from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.model import Report

SCRIPT = Path(__file__).with_name("script.py")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@dataclass(frozen=True)
class Told:
    """What the ranks left: exit codes by rank (of torchrun: its own), standard output, and the sessions."""

    codes: list[int]
    stdouts: list[str]
    stderr: str
    folder: Path

    @property
    def session(self) -> Report:
        return self.of("last.json")

    def of(self, name: str) -> Report:
        return from_json((self.folder / ".gradwright" / name).read_text())

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.folder / ".gradwright").iterdir())


def by_torchrun(folder: Path, warm: Path, *words: str) -> Told:
    _lay_out(folder)
    with _leaving_nothing(folder) as environment:
        done = subprocess.run(
            [*torchrun(warm), "diagnose", "script.py", *words],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    return Told([done.returncode], [done.stdout], done.stderr, folder)


def torchrun(warm: Path) -> list[str]:
    """The beginning of a command that runs gradwright on two ranks."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    return [*launcher, sys.executable, "-c", COMMAND.format(str(warm))]


def one_by_one(
    folder: Path, warm: Path, *words: str, ours: Sequence[str] = (), interrupt: float | None = None, fixes: bool = False
) -> Told:
    """``interrupt``: so many seconds after the third step all get what Ctrl-C sends."""
    _lay_out(folder, fixes)
    command = [sys.executable, "-c", COMMAND.format(str(warm)), "diagnose", *ours, "script.py", *words]
    processes: list[subprocess.Popen[bytes]] = []
    with _leaving_nothing(folder) as environment:
        try:
            for rank in range(2):
                with open(folder / f"out{rank}", "w") as out, open(folder / f"err{rank}", "w") as err:
                    own = {**environment, "RANK": str(rank)}
                    processes.append(
                        subprocess.Popen(command, cwd=folder, env=own, stdout=out, stderr=err, start_new_session=True)
                    )
            if interrupt is not None:
                _wait_for(folder / "stepped", 300)
                time.sleep(interrupt)
                for process in processes:
                    os.killpg(process.pid, signal.SIGINT)
            codes = [process.wait(600) for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    outs, errs = ([(folder / f"{name}{rank}").read_text() for rank in range(2)] for name in ("out", "err"))
    return Told(codes, outs, "".join(errs), folder)


def _lay_out(folder: Path, fixes: bool = False) -> None:
    shutil.copy(SCRIPT, folder)
    seconds = 300 if fixes else 0  # as many as a fix needs on any machine
    (folder / "pyproject.toml").write_text(f"[tool.gradwright]\nprobe-seconds = 300\nfix-seconds = {seconds}\n")


class _leaving_nothing:  # noqa: N801 - read as a word
    """An environment whose temporary folder is the test's own, and empty again at the end."""

    def __init__(self, folder: Path) -> None:
        self._temporary = folder / "tmp"

    def __enter__(self) -> dict[str, str]:
        self._temporary.mkdir()
        known = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "MASTER"))}
        several = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        return {**known, **ENVIRONMENT, **several, "TMPDIR": str(self._temporary)}

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            left = [path.name for path in self._temporary.iterdir() if path.name.startswith("gradwright-")]
            assert not left, f"left behind: {left}"
            assert not _still_running(self._temporary), "a process of this run is still there"


def _still_running(temporary: Path) -> list[str]:
    """Processes that were started with this temporary folder."""
    mark, found = f"TMPDIR={temporary}".encode(), []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def _wait_for(path: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
