"""The states of a simulation in reverse order, from few of them: binomial checkpointing.

NOTE [binomial checkpointing]
With c snapshots (the start is one) and every step run again at most r times, β(c, r) = C(c + r, c) steps can be
reversed, and no schedule reverses more (Griewank, Walther 2000, Algorithm 799: revolve, ACM Trans. Math. Softw. 26(1)).
A stretch of l steps is cut at m: what is left of the cut keeps c snapshots and has r - 1 repetitions to spend, what is
right of it keeps c - 1 and r. The total is least where β(c, r-2) ≤ m ≤ β(c, r-1) and β(c-1, r-1) ≤ l - m ≤ β(c-1, r).

Snapshots hold the state of the random generators too, so that a step which draws random numbers draws them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import comb

from gradwright.functions.flow.explicit import Leaves
from gradwright.ground.random_states import RandomState, drawn_from, generator_devices


def cut(length: int, snapshots: int) -> int:
    """Where to take the next snapshot in ``length`` steps, of which the first state is one of ``snapshots``.

    >>> [cut(length, 2) for length in (2, 3, 4, 6)]
    [1, 1, 2, 3]
    """
    repeats = 1
    while comb(snapshots + repeats, repeats) < length:
        repeats += 1

    def reach(snapshots: int, repeats: int) -> int:
        return comb(snapshots + repeats, repeats) if repeats >= 0 else 0

    least = max(1, reach(snapshots, repeats - 2), length - reach(snapshots - 1, repeats))
    return max(least, min(reach(snapshots, repeats - 1), length - reach(snapshots - 1, repeats - 1)))


def states_for_two_sweeps(steps: int) -> int:
    """Snapshots beside the first state with which no step is run more than twice before its gradient: about √(2 steps).

    >>> [states_for_two_sweeps(steps) for steps in (1, 10, 100, 1000)]
    [0, 2, 12, 43]
    """
    count = 0
    while comb(count + 3, 2) < steps:
        count += 1
    return count


def random_state_of(state: Leaves) -> RandomState:
    """Of the CPU's generator, and of those of the devices that the simulation's state is on."""
    return RandomState.now(generator_devices(*state))


@dataclass(frozen=True)
class Snapshot:
    """The state after ``position`` steps, and the random generators before the next one."""

    position: int
    state: Leaves
    chance: RandomState | None


Advance = Callable[[Leaves, int, int], Leaves]


class Tape:
    """Snapshots of a forward sweep, and the way back through them."""

    def __init__(self, steps: int, memory: int) -> None:
        self.steps, self.memory = steps, memory
        self.stack: list[Snapshot] = []
        self.draws = False
        self._next = 0

    def has_drawn(self, draws: bool) -> None:
        """The sweep is over; if no random number was drawn, the generators needn't be kept."""
        self.draws = draws
        if not draws:
            self.stack = [replace(snapshot, chance=None) for snapshot in self.stack]

    def see(self, position: int, state: Leaves) -> None:
        """The forward sweep has come to ``position``: keep its state if the schedule says so."""
        if position == self._next and position < self.steps:
            self.stack.append(Snapshot(position, state, random_state_of(state)))
            self._next = self._target(position, self.steps) if position < self.steps - 1 else self.steps

    def backwards(self, start: Snapshot, advance: Advance) -> Iterator[Snapshot]:
        """Every state before the last, the latest first. Snapshots are used up: another time begins at the start."""
        stack = self.stack or [start]
        self.stack = []
        end = self.steps
        while end:
            top = stack[-1]
            if top.chance is not None:
                top.chance.restore()
            if top.position == end - 1:
                yield stack.pop()
                end -= 1
                continue
            target = self._target(top.position, end, len(stack))
            state = advance(top.state, top.position, target)
            stack.append(Snapshot(target, state, random_state_of(state) if self.draws else None))

    def _target(self, position: int, end: int, held: int | None = None) -> int:
        free = self.memory + 1 - (len(self.stack) if held is None else held)
        return position + cut(end - position, free + 1) if free > 0 else end - 1

    def replaying(self, chance: RandomState) -> AbstractContextManager[None]:
        return drawn_from(chance if self.draws else None)
