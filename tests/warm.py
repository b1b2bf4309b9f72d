"""Processes that the doctor starts, as forks of the zygote: an interpreter for ``sys.executable`` that asks it for one.

Nothing is loaded there a second time. The interpreter runs what the doctor starts by ``-c`` in a fork with the same
words, environment, folder and standard streams; it hands signals on, and ends as the fork ends. Everything else it
leaves to Python itself.
"""

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

OURS = "import sys; sys.path.pop(0); from gradwright.doctor."
EXECNETS = "import sys;exec(eval(sys.stdin.readline()))"  # a worker of pytest-xdist

# The command whose patients are forks: a program for ``python -c``, or a file of its own. To be filled in: python().
COMMAND = "import sys; sys.executable = {!r}; from gradwright.doctor.cli import main; main(prog_name='gradwright')"

_INTERPRETER = """#!{python} -IS
import json, os, signal, socket, sys

words = sys.argv[1:]
if words[:1] == ["-u"] and words[2:] == [{execnets!r}]:
    words = words[1:]
if words[:1] != ["-c"] or not words[1].startswith({starts!r}):
    os.execv({python!r}, [{python!r}, *words])
handed_on = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
signal.pthread_sigmask(signal.SIG_BLOCK, handed_on)  # until it is known to whom
zygote = socket.socket(socket.AF_UNIX)
zygote.connect({address!r})
asked = {{"words": words[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(zygote, [json.dumps(asked).encode() + b"\\n"], [0, 1, 2])
answers = zygote.makefile()
process = int(answers.readline())
def hand_on(number, frame):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass  # it has ended: its status is on the way
for number in handed_on:
    signal.signal(number, hand_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)
status = int(answers.readline())
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class Zygote:
    """The process with torch loaded, started when something is first asked of it: loading takes it seconds.

    ``folder``: a short path; the address of a socket has few characters.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def python(self) -> Path:
        """An interpreter that starts the doctor's processes as forks, and anything else as Python does."""
        assert self._process
        return self._folder / "python"

    def be_patient(self, request: dict[str, object]) -> int:
        """Its exit status, when it has ended; see ``zygote.py``."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def close(self) -> None:
        if "_process" in vars(self):
            self._process.communicate(timeout=60)

    @functools.cached_property
    def _process(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "tests.zygote", str(self._folder)]
        root = Path(__file__).parents[1]
        process = subprocess.Popen(words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not (self._folder / "python").exists() and process.poll() is None:
            time.sleep(0.01)
        return process


class Door:
    """Where interpreters ask: ``folder/socket``; they are ``folder/python``."""

    def __init__(self, folder: Path) -> None:
        from gradwright.doctor.conduct import start_command  # imports no torch
        from gradwright.doctor.options import Options

        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(16)  # who comes before everything is loaded waits
        interpreter = folder / "python.new"
        patient = start_command(Path(), Options(target=""))[2]  # as the command line starts it today
        text = _INTERPRETER.format(
            python=sys.executable, starts=(patient, OURS, EXECNETS), execnets=EXECNETS, address=str(folder / "socket")
        )
        interpreter.write_text(text)
        interpreter.chmod(0o755)
        interpreter.rename(folder / "python")  # whole or not at all

    def open(self, interpreter: Path) -> None:
        """Serve in a fork, for as long as this process lives. ``interpreter``: ``sys.executable`` from now on."""
        sys.executable = str(interpreter)
        asking = os.getpid()
        self._server = os.fork()
        if self._server != 0:
            return
        while os.getppid() == asking:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            if not select.select([self._listener], [], [], 0.5)[0]:
                continue
            connection, _ = self._listener.accept()
            if os.fork() == 0:
                self._listener.close()
                _attend(connection)
            connection.close()
        os._exit(0)

    def close(self) -> None:
        os.kill(self._server, signal.SIGTERM)
        os.waitpid(self._server, 0)


def _attend(connection: socket.socket) -> NoReturn:
    """One process from its beginning to its end; if its interpreter is killed, so is it."""
    text, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(1 << 20)
    process = os.fork()
    if process == 0:
        connection.close()
        _be(json.loads(text), streams)
    with contextlib.suppress(OSError):  # of an interpreter that was killed
        connection.sendall(f"{process}\n".encode())
    ended = (0, 0)
    while ended == (0, 0):
        if select.select([connection], [], [], 0.005)[0]:
            os.kill(process, signal.SIGKILL)
            time.sleep(0.005)
        ended = os.waitpid(process, os.WNOHANG)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
    os._exit(0)


def _be(asked: dict, streams: list[int]) -> NoReturn:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    command, *words = asked["words"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = ["-c", *words]
    sys.path.insert(0, "")
    sys.stdin = os.fdopen(0, closefd=False)
    code = 1
    try:
        exec(command, {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
