"""Runs the Python blocks of a page as one script, and says where it does not do what the page says.

A process that has torch forks once for each page, so that pages share nothing. Conventions: ``python`` blocks run in
order, in one namespace, in an empty folder, with warnings as errors; ``<!-- given`` blocks too, unseen; below
``<!-- prints -->`` stands what the block before printed, up to durations; ``<!-- raises E -->`` is above a block that
raises E, whose message counts as printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
import traceback
import types
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "site"))

from pages import blocks

SECONDS = 600
_DURATION = re.compile(r"\d[\d.,]* ?(?:s|ms|us|ns|µs)\b")


def ask(runner: subprocess.Popen[str], text: str, folder: Path) -> list[str]:
    """The faults of a page, from a fork of the runner."""
    assert runner.stdin is not None and runner.stdout is not None
    empty = folder / f"page{len(list(folder.iterdir()))}"
    empty.mkdir()
    runner.stdin.write(json.dumps({"text": text, "folder": str(empty)}) + "\n")
    runner.stdin.flush()
    return list(json.loads(runner.stdout.readline()))


def masked(text: str) -> str:
    """Without durations, and without how wide they make a column.

    >>> masked("took 12.3 ms | a") == masked("took 4 ms    | a")
    True
    """
    shown = []
    for line in text.rstrip().split("\n"):
        told = _DURATION.sub("<time>", line.rstrip())
        shown.append(re.sub(r" +", " ", told) if "<time>" in told else told)
    return "\n".join(shown)


def faults(text: str, folder: Path) -> list[str]:
    """What differs; the first exception that a page does not announce ends it."""
    os.chdir(folder)
    path = folder / "page.py"
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    sys.path.insert(0, str(folder))
    wanted = [block for block in blocks(text) if block.kind in ("python", "given") or block.marker == "prints"]
    script = [block.text.rstrip("\n") + "\n\n" for block in wanted if block.marker != "prints"]
    path.write_text("".join(script), encoding="utf-8")
    found: list[str] = []
    line, printed, ran = 0, "", 0
    for block in wanted:
        if block.marker == "prints":
            if masked(printed) != masked(block.text):
                found.append(f"line {block.line}: the page shows\n{block.text}and its block printed\n{printed}")
            continue
        expected = block.marker.removeprefix("raises").strip()
        out, error = io.StringIO(), None
        with contextlib.redirect_stdout(out):
            try:
                exec(compile("\n" * line + block.text, str(path), "exec"), module.__dict__)
            except BaseException as raised:
                error = raised
        line += script[ran].count("\n")
        ran += 1
        printed = out.getvalue()
        if expected:
            if type(error).__name__ != expected:
                found.append(f"line {block.line}: should raise {expected}, and did {error!r}")
            printed += f"{error}\n"
        elif error is not None:
            shown = "".join(traceback.format_exception(error)[-4:])
            return [*found, f"line {block.line}: the block fails\n{block.text}{shown}"]
    return found


def _fork(request: dict[str, str]) -> list[str]:
    folder = Path(request["folder"])
    answer = folder.with_suffix(".json")
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        warnings.simplefilter("error")
        try:
            said = faults(request["text"], folder)
        except BaseException:
            said = [traceback.format_exc()]
        answer.write_text(json.dumps(said))
        os._exit(0)
    deadline = time.monotonic() + SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, 9)
        time.sleep(0.01)
    return list(json.loads(answer.read_text())) if answer.is_file() else [f"did not end well in {SECONDS} s"]


def serve() -> None:
    import torch

    torch.set_num_threads(1)
    import torch._dynamo  # every optimizer imports it

    import gradwright  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
