"""How much memory there is to work in, and how many backwards of single samples go together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.per_sample.asked import Asked
from gradwright.derivatives.per_sample.followed import Followed, Key
from gradwright.errors import UsageError
from gradwright.ground.torch_versions.nodes import output_metadata

#: Bytes that backwards under vmap may take at a time where nobody said how many.
USUAL_BYTES = 256 << 20


@dataclass(frozen=True)
class Room:
    """``max_bytes``, ``chunk_size``: as asked.  ``result``: bytes of the result."""

    max_bytes: int | None
    chunk_size: int | None
    samples: int
    result: int

    def chunk(self, steps: Iterable[Step]) -> int:
        """How many samples' backwards over ``steps`` go together."""
        if self.chunk_size is not None:
            return self.chunk_size
        per_sample = max(1, self._alive(steps) + self.result // self.samples)
        free = USUAL_BYTES if self.max_bytes is None else self.max_bytes - self.result
        return max(1, min(self.samples, free // per_sample))

    def fits(self, followed: Followed) -> bool:
        """Whether the quick way keeps to ``max_bytes``: the result, every captured cotangent, and what a rule needs."""
        if self.max_bytes is None:
            return True
        captured = {crossing.source for crossing in followed.crossings}
        held = sum(value_bytes(key) for key in captured)
        widest = max((_making(crossing.step) for crossing in followed.crossings), default=0)
        return self.result + held + self._alive(followed.steps.values()) + widest <= self.max_bytes

    def _alive(self, steps: Iterable[Step]) -> int:
        """Cotangents that one backward holds at a time: about three of the largest."""
        return 3 * max((value_bytes((step.node, 0)) for step in steps), default=0)


def value_bytes(key: Key) -> int:
    seen = output_metadata(key[0])[key[1]]
    return int(math.prod(seen.shape) * seen.dtype.itemsize)


def _making(step: Step) -> int:
    """What the rule of a step takes beside its result: copies of the cotangent and of what was saved."""
    return 2 * value_bytes((step.node, 0)) + 2 * max((value_bytes(into.key) for _, into in step.leading), default=0)


def read_room(asked: Asked, max_bytes: int | None, chunk_size: int | None) -> Room:
    """Judge the options.  Raises: UsageError where the result alone takes more than ``max_bytes``."""
    for name, given in (("max_bytes", max_bytes), ("chunk_size", chunk_size)):
        if given is not None and given < 1:
            raise UsageError(f"{name}={given}: give a positive number, or None")
    result = asked.samples * sum(math.prod(target.shape) * target.dtype.itemsize for target in asked.targets)
    if max_bytes is not None and result > max_bytes:
        raise UsageError(
            f"the result, {asked.samples} gradients of {result // max(asked.samples, 1)} bytes, takes {result} bytes, "
            f"more than max_bytes={max_bytes}: ask for the samples in parts (losses[:n]), or for fewer parameters"
        )
    return Room(max_bytes, chunk_size, max(asked.samples, 1), result)
