"""Runs a function on several ranks that talk by gloo: forks of a process that has torch loaded, a file as their store.

No port is fixed, and whatever a rank does it is gone after ``seconds``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.pipelining", "torch.nn.parallel",
        "gradwright.training.accumulator", "gradwright.training.engines.fsdp", "gradwright.training.engines.ddp",
    ]
)  # fmt: skip


@dataclass
class Outcome:
    """What became of a rank. ``error``: the exception's class and text; ``value``: what the function returned."""

    value: Any = None
    error: str = ""
    exit_code: int | None = None
    seconds: float = 0.0


def on_ranks(
    function: Callable[..., Any], ranks: int, *arguments: Any, seconds: float = 300.0, wire_seconds: float = 60.0
) -> list[Outcome]:
    """``function(*arguments)`` on each rank. ``wire_seconds``: the time limit of the process group itself."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = [_CONTEXT.Pipe(duplex=False) for _ in range(ranks)]
        processes = [
            _CONTEXT.Process(
                target=_be_rank, args=(function, rank, ranks, folder, pipes[rank][1], wire_seconds, arguments)
            )
            for rank in range(ranks)
        ]
        begun = time.monotonic()
        with _tests_importable():
            for process, (_, sender) in zip(processes, pipes, strict=True):
                process.start()
                sender.close()
        outcomes = [Outcome() for _ in processes]
        for (receiver, _), outcome in zip(pipes, outcomes, strict=True):
            try:
                if receiver.poll(max(0.0, begun + seconds - time.monotonic())):
                    outcome.value, outcome.error, outcome.seconds = receiver.recv()
                else:
                    outcome.error = f"still running after {seconds} s"
            except EOFError:
                outcome.error = "died"
        for process, (receiver, _), outcome in zip(processes, pipes, outcomes, strict=True):
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()
            outcome.exit_code = process.exitcode
            receiver.close()
            process.close()
    return outcomes


@contextlib.contextmanager
def _tests_importable() -> Iterator[None]:
    """A process that begins here takes over sys.path; pytest finds these modules without it."""
    root = str(Path(__file__).parents[2])
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)


def values(outcomes: list[Outcome]) -> list[Any]:
    """Of ranks that all came to their end."""
    assert not [outcome.error for outcome in outcomes if outcome.error], "\n".join(
        f"rank {rank}: {outcome.error}" for rank, outcome in enumerate(outcomes)
    )
    return [outcome.value for outcome in outcomes]


def _be_rank(
    function: Callable[..., Any],
    rank: int,
    ranks: int,
    folder: str,
    sender: Any,
    wire_seconds: float,
    arguments: tuple[Any, ...],
) -> None:
    silent = os.open(Path(folder) / f"rank{rank}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=wire_seconds),
    )
    begun = time.monotonic()
    value, error = None, ""
    try:
        value = function(*arguments)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        traceback.print_exc()
    sender.send((value, error, time.monotonic() - begun))
    sender.close()
    if error:
        sys.stderr.flush()
        os._exit(1)  # its peers may be gone: nothing is waited for
    dist.destroy_process_group()
