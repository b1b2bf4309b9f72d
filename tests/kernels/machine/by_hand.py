"""Kernels written by hand, as small as they can be, and Python processes to run them in."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path

from gradwright.kernels.machine import pool
from gradwright.kernels.machine.compiling import Kernel, kernel

ROOT = Path(__file__).parents[3]
BLOCK = 64

_SCALED = """
factor = float32({factor!r})


def kernel(parameters):
    while True:
        block = next_block(parameters)
        if block >= word(parameters, 2):
            return
        for i in range(block * {block}, min((block + 1) * {block}, word(parameters, 3))):
            store_f32_0(word(parameters, 5), i, factor * load_f32_as_f32(word(parameters, 4), i))
        block_done(parameters)
"""


def scaled(factor: float) -> str:
    """The source of a kernel that writes ``factor`` times its operand."""
    return _SCALED.format(factor=factor, block=BLOCK)


class Call:
    """An operand 0, 1, 2, ..., room for the result, and the parameters of ``scaled``."""

    def __init__(self, count: int = 1000) -> None:
        self.operand = array("f", range(count))
        self.result = array("f", [-1.0] * count)
        places = (self.operand.buffer_info()[0], self.result.buffer_info()[0])
        self.parameters = array("q", [0, 0, -(-count // BLOCK), count, *places])

    def run(self, kernel: Kernel, threads: int = 1) -> list[float]:
        pool.run(kernel, self.parameters, self.parameters.buffer_info()[0], threads)
        return self.result.tolist()


def times(factor: float, count: int = 1000) -> list[float]:
    """What ``scaled`` has to write: exact in float32 for the factors of these tests, small whole numbers and halves."""
    return [factor * k for k in range(count)]


def tripled() -> tuple[str, list[float]]:
    """Where the kernel came from, and what it wrote."""
    triple = kernel(scaled(3), "triple")
    return triple.origin, Call().run(triple, 2)


def python(script: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which has to end by itself; what it printed."""
    return subprocess.run(
        [sys.executable, *options, "-c", script],
        env=_environment(environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def begun(script: str, **environment: str) -> subprocess.Popen[str]:
    """The same, not waited for."""
    return subprocess.Popen(
        [sys.executable, "-c", script], env=_environment(environment), stdout=subprocess.PIPE, text=True
    )


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}
