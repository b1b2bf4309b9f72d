"""How many directions go at a time: within ``max_bytes``, where what they make adds up; or as stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.planning.cost import chunk_of, machine_of
from gradwright.derivatives.planning.work import work_of
from gradwright.errors import DerivativeError
from gradwright.ground.memory import memory_of

#: The fewest directions that are worth the steps' own work.
FEWEST = 8


def chunk_within(
    run: Callable[[int, int], object],
    count: int,
    chunk: int,
    max_bytes: int,
    create_graph: bool,
    device: torch.device,
) -> int:
    """A number of directions at a time, up to ``chunk``, with which all ``count`` of them fit.

    ``run(n, c)``: the first n directions, c at a time. Where no graph is made, two chunks take as much as all do, and a
    chunk of c takes what one direction does, and the difference that a second one makes for each one more. Where a
    graph is made, each direction keeps the difference that a second chunk makes, and what the directions of a chunk
    have in common is kept for each chunk: larger chunks take less, so all at once is tried, too.
    Cost: six directions; with a graph three chunks, and all directions where those are too much.
    Raises: DerivativeError that says how much is needed at least.
    """
    size = min(chunk, count)
    if create_graph:
        needed = {size: _with_graph(run, count, size, device)}
        if needed[size] > max_bytes:
            needed[count] = _with_graph(run, count, count, device)
        fits = [each for each, taken in needed.items() if taken <= max_bytes]
        least, size = min(needed.values()), fits[0] if fits else size
    else:
        least, two = (memory_of(partial(run, 2 * c, c), device).peak_bytes for c in (1, 2))
        size = min(size, 1 + max(max_bytes - least, 0) // max(two - least, 1))
    if least > max_bytes:
        kept = ", most of it for the graph (create_graph=True)" if create_graph else ""
        raise DerivativeError(
            f"max_bytes={max_bytes:,} is too little: {least:,} bytes are needed at least{kept}. Raise max_bytes, or "
            "take the samples in parts"
        )
    return size


def _with_graph(run: Callable[[int, int], object], count: int, size: int, device: torch.device) -> int:
    first = memory_of(lambda: run(size, size), device)
    if size >= count:
        return first.peak_bytes
    second = memory_of(lambda: run(min(2 * size, count), size), device)
    keeps = max(second.kept_bytes - first.kept_bytes, 0) / (min(2 * size, count) - size)
    return round(first.peak_bytes + (count - size) * keeps)


def chunk_for_cache(request: Request) -> int:
    """How many directions to push at a time: few enough that the widest layer's tangents stay in the cache.

    A Laplacian of 50 directions (B=256, 128 wide, one core) took 1.7 times as long at once as by tens, and 2.6 times
    one by one, as what a step needs beside the directions (the slope of a tanh) is computed anew for each chunk.
    """
    machine, every = machine_of(request.target.device, request.output.dtype), max(request.column_count, 1)
    fitting = max(FEWEST, chunk_of(PUSHED.name, work_of(request), machine, every))
    return math.ceil(every / max(1, round(every / fitting)))  # of equal size: a rest of two costs as much as eight
