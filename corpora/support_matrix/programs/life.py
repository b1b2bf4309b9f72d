"""Copies, pickles, threads, processes."""

from __future__ import annotations

import copy
import functools
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..row import row
from ..verdict import ElsewhereError
from .values import leaf

SECTION = "Life"


class Layer(torch.nn.Module):
    """Holds a custom function, as layers do."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(leaf().detach())

    def forward(self) -> torch.Tensor:
        return self.function(self.weight).sum()


def _gradient(layer: Any) -> tuple[Any, Any]:
    layer().backward()
    return layer.weight.grad, 5 * layer.weight


@row(SECTION, "pickled")
def pickled(column: Any) -> tuple[Any, Any]:
    """A module that holds `square`, pickled and back."""
    return _gradient(pickle.loads(pickle.dumps(Layer(column.square))))


@row(SECTION, "deepcopied")
def deep_copied(column: Any) -> tuple[Any, Any]:
    """`copy.deepcopy` of that module."""
    return _gradient(copy.deepcopy(Layer(column.square)))


@row(SECTION, "threads")
def threads(column: Any) -> tuple[Any, Any]:
    """Eight threads, 50 times forward and backward each, with values of their own."""

    def work(number: int) -> list[float]:
        found: list[float] = []
        for step in range(50):
            x = leaf(number + step / 64)
            column.square(x).sum().backward()
            found += x.grad.tolist() if x.grad is not None else [float("nan")]
        return found

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(8)))
    return got, [[5 * (number + step / 64) for step in range(50)] for number in range(8)]


@row(SECTION, "DDP")
def ddp(column: Any) -> tuple[Any, Any]:
    """Two processes (gloo), each with data of its own: `DistributedDataParallel` averages the gradients."""
    came = ranks()[column.__name__.rsplit(".", 1)[-1]]
    if isinstance(came, str):
        raise ElsewhereError(came)
    return came[0], came[1]


@functools.cache
def ranks() -> dict[str, Any]:
    """By torch column what came of the two processes; run once for all of them."""
    done = subprocess.run(
        [sys.executable, "-m", "corpora.support_matrix.ranks"],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
