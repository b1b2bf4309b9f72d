"""Solve z = f(z), for every sample of a batch by itself.

NOTE [rows]
The state is laid out as rows: one row per sample, all its numbers side by side. Each row has its own mixing
coefficients, its own residual and its own end: a row that has converged stands still, so that no sample's answer hangs
on the company it was solved in.

NOTE [when a row has converged]
Forward: the root mean square of f(z) - z is at most ``tolerance`` times the larger of 1 and that of f(z): absolute for
small states, relative for large ones. The linear equations of the backward are solved in units of their right-hand
side (``relative``), so that a gradient is linear in its cotangent, however small that is. What is returned is the z
at which the residual was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from gradwright.functions.flow.explicit import Leaves

Solver: TypeAlias = Literal["anderson", "broyden", "iteration"]


@dataclass(frozen=True)
class Solved:
    """How a solver fared: evaluations of f, the worst row's residual over its scale, and rows that did not converge."""

    steps: int
    residual: float
    unconverged: int

    @property
    def converged(self) -> bool:
        return self.unconverged == 0


class Rows:
    """Tensors with ``batch_dims`` leading axes in common, as one matrix of rows, and back."""

    def __init__(self, like: Sequence[Tensor], batch_dims: int) -> None:
        self.shapes = [leaf.shape for leaf in like]
        self.dtypes = [leaf.dtype for leaf in like]
        self.count = math.prod(self.shapes[0][:batch_dims]) if self.shapes else 0
        self.widths = [math.prod(shape[batch_dims:]) for shape in self.shapes]

    def pack(self, leaves: Sequence[Tensor]) -> Tensor:
        flat = [leaf.reshape(self.count, width) for leaf, width in zip(leaves, self.widths, strict=True)]
        return flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)

    def unpack(self, rows: Tensor) -> Leaves:
        parts = torch.split(rows, self.widths, dim=1)
        return tuple(
            part.reshape(shape).to(dtype) for part, shape, dtype in zip(parts, self.shapes, self.dtypes, strict=True)
        )


def solve(
    f: Callable[[Leaves], Leaves],
    start: Leaves,
    batch_dims: int,
    *,
    solver: Solver,
    tolerance: float,
    max_steps: int,
    memory: int,
    relative: bool = False,
) -> tuple[Leaves, Solved]:
    """The z at which every row has converged, or the last one. Cost: ``Solved.steps`` evaluations of f, no graph.

    Raises: nothing of its own; rows that hold NaN or inf end the search at once.
    """
    layout = Rows(start, batch_dims)
    z = layout.pack(start).detach().clone()
    if not z.numel():
        return layout.unpack(z), Solved(0, 0.0, 0)
    unit = _units(z) if relative else torch.ones_like(z[:, :1])
    z = z / unit
    method = METHODS[solver](memory)
    for step in range(1, max_steps + 1):
        value = layout.pack(f(layout.unpack(z * unit))).detach() / unit
        residual = value - z
        size, scale = _rms(residual), _rms(value).clamp_min(1)
        arrived = (size <= tolerance * scale) & torch.isfinite(scale)
        left = int((~arrived).sum())
        if not left or step == max_steps or not bool(torch.isfinite(size).all()):
            break
        z = torch.where(arrived, z, method.next(z, value, residual))
    return layout.unpack(z * unit), Solved(step, float((size / scale).max()), left)


def distance(z: Leaves, value: Leaves, batch_dims: int) -> float:
    """The worst row's residual of z, over its scale, where f(z) is ``value``."""
    layout = Rows(z, batch_dims)
    rows, values = layout.pack(z).detach(), layout.pack(value).detach()
    if not rows.numel():
        return 0.0
    return float((_rms(values - rows) / _rms(values).clamp_min(1)).max())


def _units(rows: Tensor) -> Tensor:
    """The size of each row; where a row is zero, of the largest one (it may hear of the others)."""
    largest = rows.abs().amax(1, keepdim=True)  # squares of very small numbers are zero, of very large ones inf
    sizes = largest * _rms(rows / torch.where(largest > 0, largest, 1)).to(rows.dtype)
    return torch.where(sizes > 0, sizes, torch.where(sizes.max() > 0, sizes.max(), 1))


def _rms(rows: Tensor) -> Tensor:
    """Root mean square of each row, as a column, in at least float32."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=dtype)
    return norms / math.sqrt(max(1, rows.shape[1]))


class Method(Protocol):
    """A way from z, f(z) and f(z) - z to the next z."""

    def __init__(self, memory: int) -> None: ...

    def next(self, z: Tensor, value: Tensor, residual: Tensor) -> Tensor: ...


class Iteration:
    """z ← f(z): converges where f contracts (Banach)."""

    def __init__(self, memory: int) -> None:
        del memory  # it keeps nothing

    def next(self, z: Tensor, value: Tensor, residual: Tensor) -> Tensor:
        return value


class Anderson:
    """Anderson acceleration: of the last ``memory`` steps, the mixture whose residual is least.

    With r = f(z) - z, and ΔZ, ΔR the differences of consecutive z and r as columns:
    γ = argmin |r - ΔR γ|, z ← f(z) - (ΔZ + ΔR) γ; on a linear f this is GMRES (Theorem 2.2).
    Source: Walker, Ni 2011, Anderson Acceleration for Fixed-Point Iterations, SIAM J. Numer. Anal. 49(4), Algorithm AA
    in its unconstrained form.

    γ comes from the normal equations of columns scaled to length 1, with a small ridge: columns may be parallel, and
    the error that the ridge makes is removed by the next step.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.last: tuple[Tensor, Tensor] | None = None
        self.differences: list[tuple[Tensor, Tensor]] = []  # of f(z), of r; the oldest is replaced
        self.steps = 0

    def next(self, z: Tensor, value: Tensor, residual: Tensor) -> Tensor:
        if self.last is None:
            self.memory = min(self.memory, z.shape[1])
            self.gram = z.new_zeros(z.shape[0], self.memory, self.memory)
            self.last = value, residual
            return value
        slot = self.steps % self.memory
        self.differences[slot : slot + 1] = [(value - self.last[0], residual - self.last[1])]
        self.last = value, residual
        self.steps += 1
        for place, (_, other) in enumerate(self.differences):
            self.gram[:, slot, place] = self.gram[:, place, slot] = (self.differences[slot][1] * other).sum(1)
        kept = len(self.differences)
        gram = self.gram[:, :kept, :kept].double()
        right = torch.stack([(other * residual).sum(1) for _, other in self.differences], dim=1).double().unsqueeze(2)
        lengths = gram.diagonal(dim1=1, dim2=2).sqrt().clamp_min(1e-150).unsqueeze(2)
        gram = gram / (lengths * lengths.mT)
        gram.diagonal(dim1=1, dim2=2).add_(torch.finfo(z.dtype).eps ** 0.6)
        weights = (torch.linalg.solve_ex(gram, right / lengths)[0] / lengths).to(z.dtype)
        for place, (difference, _) in enumerate(self.differences):
            value = value - weights[:, place] * difference
        return value


class Broyden:
    """Broyden's good method on f(z) - z = 0, from the Jacobian -1; after ``memory`` rank-one updates it starts afresh.

    The inverse is H = -1 + Σ u vᵀ. With s = Δz, y = Δr: vᵀ = sᵀH, u = (s - H y) / (vᵀ y), H ← H + u vᵀ (Sherman and
    Morrison); z ← z - H r.
    Source: Broyden 1965, A class of methods for solving nonlinear simultaneous equations, Math. Comp. 19, method 1; as
    the solver of a deep equilibrium model: Bai, Kolter, Koltun 2019, section 3.1.3.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.last: tuple[Tensor, Tensor] | None = None
        self.updates: list[tuple[Tensor, Tensor]] = []

    def next(self, z: Tensor, value: Tensor, residual: Tensor) -> Tensor:
        if self.last is not None:
            if len(self.updates) >= self.memory:
                self.updates.clear()
            s, y = z - self.last[0], residual - self.last[1]
            v = self._inverse_transposed(s)
            through = (v * y).sum(1, keepdim=True)
            usable = through.abs() > torch.finfo(z.dtype).tiny  # a row at rest has s = y = 0
            u = torch.where(usable, (s - self._inverse(y)) / torch.where(usable, through, 1), 0)
            self.updates.append((u, v))
        self.last = z, residual
        return z - self._inverse(residual)

    def _inverse(self, rows: Tensor) -> Tensor:
        return _updated(rows, self.updates)

    def _inverse_transposed(self, rows: Tensor) -> Tensor:
        return _updated(rows, [(v, u) for u, v in self.updates])


def _updated(rows: Tensor, updates: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """(-1 + Σ u vᵀ) r, row by row."""
    result = -rows
    for u, v in updates:
        result = result + u * (v * rows).sum(1, keepdim=True)
    return result


METHODS: dict[str, type[Method]] = {"anderson": Anderson, "broyden": Broyden, "iteration": Iteration}
