"""``gw.check`` of a gradient on the device beside gradcheck's fast mode: rows of ``how_long_does_a_check_take.py``.

Whole gradcheck is left out: its Jacobian of 1e6 by 1e6 elements doesn't fit, as on the CPU.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import how_long_does_a_check_take as benchmark
import torch

from on_gpu.comparing import Way, compare
from on_gpu.figure import Figure, Machine

JUDGES = ("quick", "gradcheck fast", "standard")


def measure(subject: str, size: int, machine: Machine) -> dict[str, Any]:
    function, draw = benchmark.SUBJECTS[subject]
    torch.manual_seed(size)
    inputs = draw(size, str(machine.device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ways = {name: Way(partial(benchmark.JUDGES[name], function, inputs)) for name in JUDGES}
        found = compare(ways, machine, ours="quick")
        calls = {name: _count_calls(ways[name]) for name in ("quick", "standard") if name in found.seconds}
    cells: dict[str, Any] = {}
    for name in benchmark.JUDGES:
        cells[f"{name} ms"] = round(1e3 * found.seconds[name], 2) if name in found.seconds else "-"
    cells |= {f"{name} calls": calls.get(name, "-") for name in ("quick", "standard")}
    cells |= {"gradcheck / quick": "-", "fast / quick": found.ratio("gradcheck fast")}
    return found.finish(cells | {"quick spread": found.spread_of_ours(), "quick MiB": found.mebibytes("quick")})


def _count_calls(way: Way) -> int:
    """Of the Function's forward and backward."""
    benchmark.Counted.calls = 0
    way.call()
    return benchmark.Counted.calls


def list_figures(*, is_small: bool) -> list[Figure]:
    size = 1_000 if is_small else 1_000_000
    subjects = list(benchmark.SUBJECTS)[: 1 if is_small else None]
    return [
        Figure("how_long_does_a_check_take", "", f"{subject}, {size:,}", partial(measure, subject, size))
        for subject in subjects
    ]
