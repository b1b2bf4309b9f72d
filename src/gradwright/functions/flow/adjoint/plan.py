"""What a simulation is: a step, how often, which states go out; and the step's promises, held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.flow.adjoint.replay import Tape, random_state_of
from gradwright.functions.flow.explicit import Call, Leaves
from gradwright.functions.flow.strangers import bare
from gradwright.ground.random_states import RandomState, drawn_from


@dataclass
class Seen:
    """What the forward sweep leaves for the backward."""

    tape: Tape
    chance: RandomState | None = None
    final: Leaves = ()
    extremes: Tensor | None = None


@dataclass(frozen=True)
class Plan:
    """``steps`` times ``call``; ``looked_at``: the positions whose states go out, stacked, or the last one alone."""

    call: Call
    inverse: Call | None
    count: int
    tensors: int
    steps: int
    memory: int
    looked_at: tuple[int, ...]
    stacked: bool
    indexed: bool
    tolerance: float  # between a state and its replay
    refuse_strangers: Callable[..., None] | None = None
    kept: bool = False  # is an ordinary backward to come?
    seen: Seen = field(default_factory=lambda: Seen(Tape(0, 0)))

    def step(self, position: int, state: Leaves, tensors: Leaves, **options: Any) -> Leaves:
        return self.call(state, tensors, *self._between(position), **options)

    def step_back(self, position: int, state: Leaves, tensors: Leaves) -> Leaves:
        """From the state after step ``position`` to the one before it."""
        assert self.inverse is not None
        return self.inverse(state, tensors, *self._between(position))

    def advance(self, state: Leaves, start: int, end: int, tensors: Leaves) -> Leaves:
        for position in range(start, end):
            state = self.step(position, state, tensors)
        return state

    def sweep(self, state: Leaves, tensors: Leaves) -> Leaves:
        """The simulation itself, without a graph: what goes out; ``seen`` is filled."""
        tape = Tape(self.steps, self.memory)
        self.seen.tape, self.seen.chance = tape, random_state_of(state)
        out = [state] * self.looked_at.count(0)
        for position in range(self.steps):
            if self.kept and self.inverse is None:
                tape.see(position, state)
            state = self.step(position, state, tensors, on_buffers=True)
            out += [state] * self.looked_at.count(position + 1)
        tape.has_drawn(not self.seen.chance.equals(random_state_of(state)))
        if self.kept:
            self.seen.final = tuple(leaf.clone() for leaf in state)
        outward = self.outward(out)
        self.seen.extremes = extremes(outward)
        return outward

    def look_for_strangers(self, state: Leaves, tensors: Leaves) -> None:
        """Call the step once more, with its random numbers and without consequences; it may raise."""
        if self.refuse_strangers is not None:
            with drawn_from(random_state_of(state)):
                self.refuse_strangers(state, tensors, *self._between(0))

    def unrolled(self, *given: Tensor) -> Leaves:
        """The same, as autograd would see it."""
        state, tensors = given[: self.count], given[self.count :]
        out = [state] * self.looked_at.count(0)
        for position in range(self.steps):
            state = self.step(position, state, tensors)
            out += [state] * self.looked_at.count(position + 1)
        return self.outward(out)

    def outward(self, states: Sequence[Leaves]) -> Leaves:
        if self.stacked:
            return tuple(torch.stack(leaves) for leaves in zip(*states, strict=True))
        return tuple(leaf.clone() for leaf in states[0])

    def inward(self, cotangents: Leaves) -> dict[int, list[Leaves]]:
        """∂L/∂x_k by k."""
        found: dict[int, list[Leaves]] = {}
        for place, position in enumerate(self.looked_at):
            here = tuple(c[place] for c in cotangents) if self.stacked else cotangents
            found.setdefault(position, []).append(here)
        return found

    def _between(self, position: int) -> tuple[int, ...]:
        return (position,) if self.indexed else ()


def gap(one: Leaves, other: Leaves) -> Tensor:
    """The largest difference of two states, relative to the largest number in them."""
    apart = torch.stack([_largest(a.detach() - b.detach()) for a, b in zip(one, other, strict=True)]).max()
    size = torch.stack([_largest(leaf.detach()) for leaf in (*one, *other)]).max()
    return apart / size.clamp_min(torch.finfo(torch.float64).tiny)


def extremes(outputs: Leaves) -> Tensor:
    """The largest and the smallest number: the same however torch.func has wrapped a tensor, or moved its axes."""
    ends = [torch.stack([base.max(), base.min()]).double() for base in map(bare, outputs) if base.numel()]
    return torch.stack(ends) if ends else torch.zeros(0)


def refuse_other_extremes(outputs: Leaves, plan: Plan) -> None:
    """Raise if the simulation, run again as a whole, came out elsewhere."""
    assert plan.seen.extremes is not None
    refuse_gap(gap((extremes(outputs),), (plan.seen.extremes,)), plan)


def refuse_gap(worst: Tensor, plan: Plan) -> None:
    """Raise if a replayed state is another one than it was. NaN in both is no gap."""
    tolerance = plan.tolerance
    if not float(worst) > tolerance:
        return
    if plan.inverse is not None:
        raise UsageError(
            "integrate: the inverse does not undo the step\n"
            f"  what   going back, states differ by {float(worst):.2g} of their size from those of the way forward "
            f"(allowed: {tolerance:.2g})\n"
            "  why    its gradient would be taken at states that never were: a wrong inverse, a random step, or one "
            "that forgets (friction), so that rounding grows on the way back\n"
            "  do     check that inverse(step(x)) is x, or leave out inverse=: snapshots then take its place"
        )
    raise UsageError(
        "integrate: the step is not reproducible\n"
        f"  what   replayed in the backward, states differ by {float(worst):.2g} of their size from the forward's "
        f"(allowed: {tolerance:.2g})\n"
        "  why    the backward runs steps again: one that draws from NumPy's or Python's random numbers or from a "
        "torch.Generator of its own, or that keeps a state of its own, then gives another trajectory\n"
        "  do     hand noise over as an argument, or draw it from torch's default generator, which is replayed"
    )


def _largest(leaf: Tensor) -> Tensor:
    return leaf.abs().max().double() if leaf.numel() else torch.zeros((), dtype=torch.float64, device=leaf.device)
