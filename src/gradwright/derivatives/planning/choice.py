"""Which method makes this Jacobian, and how many directions it takes at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.derivatives.graph.options import Options
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.batched import BATCHED
from gradwright.derivatives.methods.carrying import columns_unfit
from gradwright.derivatives.methods.coloured import coloured, colours, read_sparsity
from gradwright.derivatives.methods.complexes import complex_rows, exact_rows
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.method import Method, every_direction
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.sparsity import structural_sparsity
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.planning.cost import Machine, chunk_of, direction_seconds, machine_of, seconds
from gradwright.derivatives.planning.work import Work, work_of
from gradwright.derivatives.samples.structure import Structure

METHODS = (SUM_TRICK, BATCHED, PUSHED, DOUBLE_VJP)

#: Predicted time from which it is worth looking for a sparsity in the graph.
LOOK_FOR_SPARSITY = 1e-3


@dataclass(slots=True, eq=False)
class Candidate:
    """A method for this request. ``count``: its directions.  ``pattern``: what it is coloured by, None where it isn't.

    ``seconds``: predicted.  ``given``: that pattern is the caller's claim, not what the graph shows.
    """

    method: Method
    count: int
    chunk: int
    seconds: float
    pattern: Tensor | None = None
    given: bool = False

    @property
    def name(self) -> str:
        return self.method.name if self.pattern is None else f"{self.method.name}, coloured"

    @property
    def bypasses(self) -> bool:
        return self.method is PUSHED

    def directions(self, request: Request) -> Tensor:
        """What goes through the graph: unit vectors, or their sums by colours."""
        if self.pattern is None:
            return every_direction(request, self.method.side)
        point = request.output if self.method.side == "rows" else request.target
        return colours(self.pattern, self.method.side).directions(point.dtype, point.device)

    def run(self, request: Request) -> Tensor:
        """The Jacobian, [B, K, D]."""
        if self.pattern is not None:
            return coloured(request, self.pattern, self.method, self.chunk)
        directions = every_direction(request, self.method.side)
        if request.output.is_complex():
            return complex_rows(request, self.method, directions, self.chunk)
        return self.method.run(request, directions, self.chunk)


@dataclass(slots=True, eq=False)
class Weighed:
    """What is the same for all candidates of a request.  ``result_bytes``: of the whole Jacobian."""

    request: Request
    options: Options
    work: Work
    machine: Machine
    proved: bool
    result_bytes: int

    def candidate(self, method: Method, count: int) -> Candidate:
        machine, work = self.machine, self.work
        chunk = self.options.chunk_size or chunk_of(method.name, work, machine, count)
        if method is DOUBLE_VJP and self.options.chunk_size is None and machine.cache < 8 * work.widest:
            chunk = 1  # under vmap it gains nothing before eight at a time (measured)
        cost = seconds(method.name, count, chunk, work, self.result_bytes, machine, self.request.create_graph)
        if method is PUSHED and self.proved and hooks_ever():
            cost += direction_seconds(work, machine) + work.steps * machine.single  # one vjp has to agree
        return Candidate(method, count, chunk, cost)

    def plain(self) -> list[Candidate]:
        request = self.request
        sides = {"rows": request.row_count, "columns": request.column_count}
        return [self.candidate(method, sides[method.side]) for method in self.admitted()]

    def by_colour(self, pattern: Tensor, given: bool) -> Iterator[Candidate]:
        """Candidates by the colours of a pattern; where it was not given, only if they are half of all or less."""
        for method in self.admitted():
            colouring = colours(pattern, method.side)
            if given or 2 * colouring.count <= min(pattern.shape):
                yield replace(self.candidate(method, colouring.count), pattern=pattern, given=given)

    def admitted(self) -> list[Method]:
        """The methods that mode, dtypes and hooks admit."""
        why = {side: why_no_side(self.request, self.options, side) for side in ("rows", "columns")}
        return [method for method in METHODS if not why[method.side] and not why_not_heard(self.request, method)]


def at_sight(request: Request, structure: Structure, options: Options) -> Method | None:
    """The method of a request that is not worth weighing, None where it is.

    One or two rows, and columns are many more: backwards, one by one, as vmap gains nothing.  One column, several rows:
    it is pushed, where that can be believed at once.
    Weighing takes 50 microseconds, 140 of a cold start; a backward of a small network takes 100, and 800 (measured).
    """
    if (options.max_bytes, options.chunk_size, options.sparsity) != (None, None, None) or request.output.is_complex():
        return None
    rows, columns = request.row_count, request.column_count
    if rows <= 2 and columns >= 8 * rows and options.mode != "forward":
        return SUM_TRICK
    if columns == 1 < rows and options.mode != "reverse" and structure.proved and not hooks_ever():
        return PUSHED if PUSHED.unfit(request) is None else None
    return None


def weigh(request: Request, proved: bool, options: Options) -> Weighed:
    machine = machine_of(request.output.device, request.output.dtype)
    return Weighed(request, options, work_of(request), machine, proved, result_bytes(request))


def result_bytes(request: Request) -> int:
    """Of the Jacobian: it has the target's dtype, or the output's where that is complex."""
    kind = request.output.dtype if request.output.is_complex() else request.target.dtype
    return request.samples * request.row_count * request.column_count * kind.itemsize


def why_no_side(request: Request, options: Options, side: str) -> str | None:
    """Why rows, or columns, can't be used for this request at all."""
    if options.mode != "auto" and (options.mode == "reverse") != (side == "rows"):
        return f'mode="{options.mode}" asks for {"rows" if options.mode == "reverse" else "columns"}'
    return columns_unfit(request) if side == "columns" else None


def why_not_heard(request: Request, method: Method) -> str | None:
    """Why what passes by hooks can't be trusted: for a wrt that all samples share, no vjp of each sample can tell."""
    if method is PUSHED and request.target_axis is None and hooks_ever():
        return "a hook was registered in this process, and it would not hear one"
    return None


def why_not(request: Request, options: Options, method: Method) -> str | None:
    """Why this method can't be used, in one sentence; None where it can."""
    return why_no_side(request, options, method.side) or why_not_heard(request, method) or method.unfit(request)


def ranked(weighed: Weighed, structure: Structure) -> list[Candidate]:
    """Every candidate that does not fall out at first sight, the quickest first."""
    request, options = weighed.request, weighed.options
    if options.sparsity is not None and not request.output.is_complex():
        found = list(weighed.by_colour(read_sparsity(request, options.sparsity), True))
    else:
        found = weighed.plain()
        best = min((candidate.seconds for candidate in found), default=0.0)
        if structure.proved and best > LOOK_FOR_SPARSITY and not request.output.is_complex():
            pattern = structural_sparsity(request, structure)
            if pattern is not None:
                found += weighed.by_colour(pattern, False)
    found.sort(key=lambda candidate: candidate.seconds)
    return found


def fitting(weighed: Weighed, structure: Structure) -> Iterator[Candidate]:
    """The candidates that can be used, the quickest first."""
    return (candidate for candidate in ranked(weighed, structure) if candidate.method.unfit(weighed.request) is None)


def impossible(request: Request, options: Options) -> str:
    """What to say where no method fits: only a mode can do that, as one-hots or the sum trick fit every graph."""
    reasons = {method.name: why_not(request, options, method) for method in METHODS if method.side == "columns"}
    told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
    return f'mode="{options.mode}" is impossible here. {told}. Leave mode out, or use mode="reverse"'


def one_hot_candidate(request: Request, options: Options) -> Candidate:
    """B * K one-hots: what is exact for every graph."""
    work, machine = work_of(request), machine_of(request.output.device, request.output.dtype)
    count = math.prod(request.output.shape)
    chunk = options.chunk_size or chunk_of(ONE_HOTS.name, work, machine, count)
    cost = seconds(BATCHED.name, count, chunk, work, result_bytes(request), machine, request.create_graph)
    return Candidate(ONE_HOTS, count, chunk, cost)


def _one_hots(request: Request, directions: Tensor, chunk: int) -> Tensor:
    """Of every entry of y: ``directions`` is y itself, and only its places count."""
    return exact_rows(request, chunk)


#: Not in METHODS: its directions are the entries of y, not those of one sample's output.
ONE_HOTS = Method("one-hots", "rows", lambda request: None, _one_hots)
