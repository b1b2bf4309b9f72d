"""``max_bytes``: the quickest method whose measured memory fits.

NOTE [Measured, then multiplied]: what a method takes is found by running one direction under the meter, not by counting
nodes. Without a graph the result is written once (NOTE [Results are written once]), so the peak is the result, and what
the directions of one chunk take: that of one, and the difference that a second makes for each one more. With a graph
each chunk keeps something (the values that a backward of it needs): the difference that a second chunk makes; then the
parts are joined, which for a moment holds the result twice. Single directions are tried first, so that trying fits,
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever, pull
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.one_hots import own_rows
from gradwright.derivatives.planning.choice import Candidate, Weighed, result_bytes
from gradwright.derivatives.planning.cost import peak_bytes
from gradwright.derivatives.samples.leaf_derivatives import derivatives_agree
from gradwright.derivatives.samples.probe import PIECE, random_cotangent
from gradwright.errors import DerivativeError
from gradwright.ground.memory import memory_of

#: ``run(count, chunk)``: the first ``count`` directions, ``chunk`` at a time.
Run = Callable[[int, int], Tensor]

#: Bytes that the probe holds at most beside its vjps: a piece of the Jacobian, and what it makes of it.
PIECES = 2 * PIECE


@dataclass(frozen=True)
class Need:
    """Bytes at most while a Jacobian is made, and those alive when it is there, what its graph keeps included.

    ``tried``: what it took to find out, for this size of the chunk.
    """

    peak: int
    alive: int
    tried: int


#: How much more than ``max_bytes`` a measured need may be: it differs by up to four per cent from one time to the next,
#: and what an error said is needed at least has to be enough.  Ten per cent are promised.
SLACK = 1.06

#: What is needed, by the size of the chunk.
Needed = Callable[[int], Need]


def within(weighed: Weighed, candidates: Sequence[Candidate], max_bytes: int) -> Candidate:
    """The quickest of the candidates that fits, its chunk made smaller where that helps.

    Cost: three directions of each candidate tried; some chunks where a graph is made.
    Raises: DerivativeError that says how much is needed at least.
    """
    request = weighed.request
    likely = [candidate for candidate in candidates if _likely(weighed, candidate) <= max_bytes]
    likely = likely or [min(candidates, key=lambda candidate: _likely(weighed, candidate))]
    least = []
    for candidate in likely:
        needed = _needed(request, candidate, _beside(request, candidate) if _is_probed(weighed) else _nothing)
        chunk, needs = _largest(needed, candidate.chunk, max_bytes)
        if chunk is not None:
            return replace(candidate, chunk=chunk)
        least.append(needs)
    raise _too_little(request, max_bytes, min(least))


def one_hots_within(request: Request, chunk: int, max_bytes: int) -> int:
    """The largest chunk, up to ``chunk``, with which one-hots fit.  Raises: DerivativeError."""
    numbers = torch.arange(request.samples * request.row_count, device=request.output.device)

    def run(count: int, chunk: int) -> Tensor:
        return own_rows(request, numbers[: 1 + count], chunk)  # the first one goes alone

    one = _extrapolated(request, run, len(numbers) - 1 or 1, result_bytes(request) + numbers.nbytes)
    units = 2 if request.output.is_complex() else 1

    def needed(size: int) -> Need:
        return Need(units * one(size).peak, one(size).alive, one(size).tried)

    fits, least = _largest(needed, chunk, max_bytes)
    if fits is None:
        raise _too_little(request, max_bytes, least)
    return fits


def _likely(weighed: Weighed, candidate: Candidate) -> float:
    """What counting nodes says, with chunks of one: enough not to try what can't fit."""
    request = weighed.request
    if request.create_graph:
        return 2.0 * result_bytes(request)
    start = 4 * weighed.work.saved if candidate.method.name == "double vjp" else 0.0
    return start + peak_bytes(candidate.count, 1, weighed.work, result_bytes(request), False)


def _needed(request: Request, candidate: Candidate, beside: Callable[[int], int]) -> Needed:
    """``beside``: what the probe takes while the Jacobian is there, by the size of the chunk."""
    directions, result = candidate.directions(request), result_bytes(request)
    parts = 3 if request.output.is_complex() else 1  # the pulls of 1 and of i, and what they are joined into
    sums = result * candidate.count // (request.row_count if candidate.method.side == "rows" else request.column_count)

    def run(count: int, chunk: int) -> Tensor:
        return candidate.method.run(request, directions[:count], chunk)

    one = _extrapolated(request, run, candidate.count, sums)

    def needed(chunk: int) -> Need:
        need = one(chunk)
        alive, peak = need.alive, parts * need.peak
        if candidate.pattern is not None:  # gathered from the sums, then put in their places
            alive, peak = alive + result, max(peak, alive + 2 * result)
        probing = beside(chunk)
        return Need(max(peak, alive + probing), alive, max(need.tried, probing))

    return needed


def _extrapolated(request: Request, run: Run, count: int, result: int) -> Needed:
    """What ``count`` directions need: NOTE [Measured, then multiplied]."""
    device = request.output.device
    if not request.create_graph:
        one = memory_of(lambda: run(1, 1), device).peak_bytes
        more = max(one, memory_of(lambda: run(2, 2), device).peak_bytes - one) if count > 1 else 0
        return lambda chunk: Need(one + (min(chunk, count) - 1) * more + (result if chunk < count else 0), result, 0)

    @cache
    def with_graph(chunk: int) -> Need:
        first = memory_of(lambda: run(chunk, chunk), device)
        if chunk >= count:
            return Need(first.peak_bytes + result, first.kept_bytes, first.peak_bytes)
        second = memory_of(lambda: run(min(2 * chunk, count), chunk), device)
        keeps = (second.kept_bytes - first.kept_bytes) / (min(2 * chunk, count) - chunk)
        alive = round(first.kept_bytes + (count - chunk) * keeps)
        return Need(alive + max(result, first.peak_bytes - first.kept_bytes), alive, second.peak_bytes)

    return with_graph


def _largest(needed: Needed, chunk: int, max_bytes: int) -> tuple[int | None, int]:
    """The largest chunk that fits, among ``chunk`` and the powers of two below; and the least that any of them needs.

    A larger chunk may need less: what a graph keeps of a value may be kept once for all directions of a chunk.
    """
    fits, least, size = None, None, 1
    while True:
        need = needed(size)
        least = need.peak if least is None else min(least, need.peak)
        if need.peak <= SLACK * max_bytes:
            fits = size
        if size >= chunk or 2 * need.tried > max_bytes:  # trying twice as many has to fit, too
            return fits, least
        size = min(2 * size, chunk)


def _is_probed(weighed: Weighed) -> bool:
    return weighed.options.batch == "auto" and weighed.request.samples > 1 and (not weighed.proved or hooks_ever() > 0)


def _nothing(chunk: int) -> int:
    return 0


def _beside(request: Request, candidate: Candidate) -> Callable[[int], int]:
    """What the random cotangent takes: its vjp, pieces of the Jacobian, and with a graph the backward of both, which
    goes through a chunk at a time.
    """
    output, target, create_graph = request.output, request.target, request.create_graph
    blocks = 2 * result_bytes(request)

    @cache
    def beside(chunk: int) -> int:
        def compared() -> object:
            pulled = pull(output, target, random_cotangent(output), create_graph=create_graph)
            if not create_graph:
                return pulled
            made = candidate.method.run(request, candidate.directions(request)[:chunk], chunk)
            return pulled, made, derivatives_agree(request, made, made)

        taken = memory_of(compared, output.device).peak_bytes
        return 2 * taken + (blocks if create_graph else min(blocks, PIECES))

    return beside if create_graph else lambda chunk: beside(1)


def require_room(shape: Sequence[int], dtype: torch.dtype, max_bytes: int | None) -> None:
    """Raises: DerivativeError where a result of zeros alone takes more than ``max_bytes``."""
    least = math.prod(shape) * dtype.itemsize
    if max_bytes is not None and least > SLACK * max_bytes:
        raise DerivativeError(_told(max_bytes, least, list(shape)) + ". " + _DO)


def _too_little(request: Request, max_bytes: int, least: int) -> DerivativeError:
    told = _told(max_bytes, least, [request.samples, *request.rows, *request.columns])
    graph = ", and much of the rest is what its graph keeps (create_graph=True)" if request.create_graph else ""
    return DerivativeError(f"{told}, of which {result_bytes(request):,} are the result itself{graph}. {_DO}")


def _told(max_bytes: int, least: int, shape: list[int]) -> str:
    return f"max_bytes={max_bytes:,} is too little: at least {least:,} bytes are needed for this Jacobian {shape}"


_DO = "Raise max_bytes, or take the samples (or outputs) in parts"
