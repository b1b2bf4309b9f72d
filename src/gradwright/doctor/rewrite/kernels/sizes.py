"""Which axes must be equally long for the kernel to be right: what is not evident is asked before it is called."""

from __future__ import annotations

from gradwright.doctor.rewrite.kernels.values import ONE, Extent
from gradwright.doctor.rewrite.source_text import DeclinedError


class Sizes:
    """The conditions found so far, in the kernel's own names: each is true at its call, or the old loop runs."""

    def __init__(self) -> None:
        self.conditions: dict[str, None] = {}
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def root(self, extent: Extent) -> tuple[object, ...]:
        key = extent.key
        while key in self._known:
            key = self._known[key]
        return key

    def link(self, one: Extent, other: Extent) -> None:
        """They are equal, as the text shows."""
        if self.root(one) != self.root(other):
            self._known[self.root(one)] = self.root(other)

    def known_equal(self, one: Extent, other: Extent) -> bool:
        if one.cut and other.cut and one.cut[1] == other.cut[1]:
            return self.known_equal(one.cut[0], other.cut[0])
        return self.root(one) == self.root(other)

    def equal(self, one: Extent, other: Extent) -> bool:
        """Whether they may be taken as equal; asks for it where that can be asked before the loop."""
        if self.known_equal(one, other):
            return True
        if one.cut and other.cut and one.cut[1] == other.cut[1]:
            return self.equal(one.cut[0], other.cut[0])
        if not (one.outer and other.outer):
            return False
        if one.size != other.size:
            raise DeclinedError(f"{one.code} and {other.code} were not the same in the run")
        self.conditions[f"{one.code} == {other.code}"] = None
        self.link(one, other)
        return True

    def together(self, one: Extent, other: Extent) -> Extent | None:
        """How long an axis is that both broadcast to; None where only the kernel itself could tell."""
        if self.known_equal(one, other) or self.known_equal(other, ONE):
            return one
        if self.known_equal(one, ONE):
            return other
        if one.cut and other.cut:
            return one if self.equal(one, other) else None
        if not (one.outer and other.outer):
            return None
        for single, many in ((one, other), (other, one)):
            if single.size == 1 and many.size != 1:
                self.conditions[f"{single.code} == 1"] = None
                self.link(single, ONE)
                return many
        self.equal(one, other)
        return one

    def single(self, extent: Extent) -> bool:
        return self.known_equal(extent, ONE)

    def not_empty(self, extent: Extent) -> bool:
        """Whether it has an element at least; asked for before the loop where that can be."""
        if extent.key[0] == "literal":
            return bool(extent.size)
        if extent.outer:
            self.conditions[f"{extent.code} > 0"] = None
        return extent.outer
