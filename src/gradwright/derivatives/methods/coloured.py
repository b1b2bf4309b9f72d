"""Jacobians with a known sparsity: rows (or columns) that share no entry go through the graph together.

Rows k and k' of J whose supports are disjoint are told apart in the sum (e_k + e_k')^T J: each entry of it belongs to
one of them. So as many backwards as there are groups make all of J (Curtis, Powell, Reid 1974, "On the estimation of
sparse Jacobian matrices"). The fewest groups are a colouring of the graph in which rows that share a column are
neighbours (Gebremedhin, Manne, Pothen 2005, "What Color Is Your Jacobian?", section 3); columns with tangents likewise.

NOTE [A sparsity is a claim]: an entry that the pattern leaves out would be added to another one, or lost. Where the
pattern is the graph's own structure that can't be; where a user gave it, the random cotangent of samples/probe.py has
to confirm the result, every time: sum_k C_k J_k of the J made here differs from the vjp for every such entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.method import Method
from gradwright.derivatives.samples.meeting_place import where_samples_meet
from gradwright.derivatives.samples.probe import Probe
from gradwright.derivatives.samples.structure import Structure
from gradwright.errors import CoupledBatch, DerivativeError, UsageError

Side = Literal["rows", "columns"]


@dataclass(frozen=True, eq=False)
class Colouring:
    """``of``: the colour of each row (side "rows") or column.  ``count``: how many there are.

    ``row``, ``column``: where the entries of the pattern stand.  All int64, on the CPU, and not to be changed.
    """

    side: Side
    of: Tensor
    count: int
    row: Tensor
    column: Tensor

    def directions(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """For each colour the sum of its unit vectors: [count, K], or [count, D]."""
        colours = torch.arange(self.count, device="cpu")[:, None]
        return (self.of == colours).to(device, dtype)


def colours(sparsity: Tensor, side: Side | None = None) -> Colouring:
    """Groups of rows (or columns) of a pattern [K, D] that share no column (row); by default the side with fewer.

    Greedy, the fullest row first; where that does not meet the lower bound (the entries of the fullest column), also
    in turn (``_in_turn``). Where more than half of the rows share a column, each is a group of its own.
    Cost: some microseconds a row; remembered for the patterns seen last.

    >>> tridiagonal = torch.ones(9, 9).tril(1).triu(-1).bool()
    >>> colours(tridiagonal, "rows").of.tolist()
    [2, 0, 1, 2, 0, 1, 2, 0, 1]
    >>> arrow = torch.eye(9, dtype=torch.bool)
    >>> arrow[:, 0] = True
    >>> colours(arrow).side, colours(arrow).count
    ('columns', 2)
    """
    if side is None:
        return min(colours(sparsity, "rows"), colours(sparsity, "columns"), key=lambda colouring: colouring.count)
    rows, columns = sparsity.shape
    return _colouring(rows, columns, tuple(sparsity.flatten().nonzero().flatten().tolist()), side)


def coloured(request: Request, sparsity: Tensor, method: Method, chunk: int) -> Tensor:
    """The Jacobian [B, K, D], zero outside ``sparsity`` [K, D], by as many directions as ``method``'s side has colours.

    Right where the pattern covers the Jacobian: NOTE [A sparsity is a claim].  Differentiable where the request asks.
    Cost: ``method`` on ``count`` directions, and one pass over the result, which is dense.
    """
    colouring = colours(sparsity, method.side)
    count, rows, columns = request.samples, request.row_count, request.column_count
    point = request.output if method.side == "rows" else request.target
    sums = method.run(request, colouring.directions(point.dtype, point.device), chunk)
    k, d = colouring.row, colouring.column
    row_of, column_of = (colouring.of[k], d) if method.side == "rows" else (k, colouring.of[d])
    entries = sums.flatten(1).index_select(1, (row_of * sums.shape[2] + column_of).to(sums.device))
    # entries outside the pattern are never touched, so an infinite one in a sum meets no zero
    blocks = sums.new_zeros(count, rows * columns)
    return blocks.index_copy_(1, (k * columns + d).to(sums.device), entries).reshape(count, rows, columns)


def read_sparsity(request: Request, sparsity: Tensor) -> Tensor:
    """A pattern given by the user as [K, D], on the CPU.  Raises: UsageError for another shape or dtype."""
    wanted = (*request.rows, *request.columns)
    flat = (request.row_count, request.column_count)
    if not isinstance(sparsity, Tensor) or sparsity.dtype != torch.bool or tuple(sparsity.shape) not in (wanted, flat):
        given = (
            f"{list(sparsity.shape)} of {sparsity.dtype}" if isinstance(sparsity, Tensor) else type(sparsity).__name__
        )
        raise UsageError(
            f"sparsity is {given}: give a boolean tensor {list(wanted)}, the pattern of one sample's Jacobian "
            "[*K, *D], True wherever an entry may be other than zero"
        )
    return sparsity.reshape(flat).cpu()


def sparsity_error(request: Request, sparsity: Tensor, structure: Structure, seen: Probe) -> DerivativeError:
    """The error for a given pattern that the probe refused.  Cost: some small backwards, where samples meet."""
    refused = (
        f"the given sparsity ({int(sparsity.sum())} of {sparsity.numel()} entries) does not fit: one vjp with a random "
        f"cotangent differs from what the coloured Jacobian says by {seen.worst:.1e} of its size, most at sample "
        f"{seen.sample}.\n"
        f"  where  between y {list(request.output.shape)} and {request.target.describe()}"
    )
    if seen.meeting is not None:
        return CoupledBatch(
            f"{refused}{where_samples_meet(request, structure, seen.meeting)}\n"
            f"  why    the samples of this batch are not independent: sample {seen.meeting.giver} reaches sample "
            f"{seen.meeting.receiver}, so no sparsity of one sample's Jacobian can be used\n"
            '  do     leave sparsity out and choose batch="coupled", which is exact; or make the samples independent '
            "(BatchNorm: model.eval(), or GroupNorm)"
        )
    lacking = "zero now, but whose derivatives are not" if seen.derivative else "not zero"
    sure = structure.proved and not hooks_ever()
    other = "" if sure else ", or a backward between (a custom Function's, a hook) is not linear in its cotangent"
    return DerivativeError(
        f"{refused}\n"
        f"  why    the pattern leaves out entries that are {lacking}{other}\n"
        "  do     leave sparsity out (where the graph shows one, it is found); or give a pattern that is True wherever "
        "a value of the target can reach the output, for all inputs: not what is not zero at one of them"
    )


@lru_cache(maxsize=16)
def _colouring(rows: int, columns: int, entries: tuple[int, ...], side: Side) -> Colouring:
    """The colouring of a pattern whose entries stand at these places of the flattened matrix."""
    places = torch.tensor(entries, dtype=torch.int64, device="cpu")
    row, column = places // max(columns, 1), places % max(columns, 1)
    line, across, size = (row, column, rows) if side == "rows" else (column, row, columns)
    fullest = int(across.bincount(minlength=1).max())  # lines that meet in one place: all of them differ in colour
    if 2 * fullest > size:
        return Colouring(side, torch.arange(size, device="cpu"), size, row, column)
    supports = [0] * size  # what a line holds, as bits
    for at, bit in zip(line.tolist(), across.tolist(), strict=True):
        supports[at] |= 1 << bit
    of, count = _largest_first(supports)
    for fewer in range(fullest, count):
        found = _in_turn(supports, fewer)
        if found is not None:
            of, count = found, fewer
            break
    return Colouring(side, torch.tensor(of, dtype=torch.int64, device="cpu"), count, row, column)


def _largest_first(supports: Sequence[int]) -> tuple[list[int], int]:
    """Greedy: each row takes the first colour whose rows it shares no column with; the fullest row chooses first."""
    taken: list[int] = []  # the columns of each colour
    of = [0] * len(supports)
    for row in sorted(range(len(supports)), key=lambda row: -supports[row].bit_count()):
        colour = next((colour for colour, columns in enumerate(taken) if not columns & supports[row]), len(taken))
        if colour == len(taken):
            taken.append(0)
        taken[colour] |= supports[row]
        of[row] = colour
    return of, len(taken)


def _in_turn(supports: Sequence[int], count: int) -> list[int] | None:
    """As they stand, each row takes the next colour in turn that is free to it; None where ``count`` are too few.

    Neighbours on a grid then get colours that repeat along its diagonals: the 5 of a five-point stencil.
    """
    taken = [0] * count
    of: list[int] = []
    turn = 0
    for support in supports:
        colour = next((colour for step in range(count) if not taken[colour := (turn + step) % count] & support), None)
        if colour is None:
            return None
        taken[colour] |= support
        of.append(colour)
        turn = colour + 1
    return of
