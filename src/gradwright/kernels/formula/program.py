"""What a kernel computes for each element: named inputs, and one formula per output."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gradwright.kernels.formula.derivatives import pulled_back, pushed_forward
from gradwright.kernels.formula.expression import Expression, count_operations, number


@dataclass(frozen=True, eq=False)
class Program:
    """Formulas over the same inputs. ``conditions`` are the inputs that are masks (true or false, no derivative).

    Its derivatives are programs, which have derivatives in turn. Cost: time and length linear in the formulas'.

    >>> from gradwright.kernels.formula.reading import read
    >>> from gradwright.kernels.formula.spelling import spelled
    >>> program = Program(("x", "y"), (read("x**2 * sin(y)").output,))
    >>> back = program.vjp(wanted=[True, True], scaled=[False])
    >>> back.inputs, [spelled(output) for output in back.outputs]
    (('x', 'y', '_cotangent_0'), ['_cotangent_0*2*(sin(y)*x)', '_cotangent_0*(x**2*cos(y))'])
    >>> [spelled(output) for output in program.jvp(given=[False, True]).outputs]
    ['_tangent_0*(cos(y)*x**2)']
    """

    inputs: tuple[str, ...]
    outputs: tuple[Expression, ...]
    conditions: frozenset[str] = frozenset()

    @cached_property
    def key(self) -> str:
        """A digest of all that it computes; the same in every process."""
        text = "|".join(f"{name}:{int(name in self.conditions)}" for name in self.inputs).encode()
        return hashlib.blake2b(text + b"".join(output.key for output in self.outputs), digest_size=16).hexdigest()

    @cached_property
    def operations(self) -> int:
        """How many distinct ones there are for an element."""
        return count_operations(self.outputs)

    def vjp(self, wanted: Sequence[bool], scaled: Sequence[bool]) -> Program:
        """The program whose outputs are the cotangents of the wanted inputs.

        Its inputs are this one's, then a cotangent for each output, then a factor for each output that is ``scaled``,
        by which that cotangent is multiplied first.
        """
        cotangents = [number(name) for name in self._new("cotangent", len(self.outputs))]
        factors = dict(
            zip([k for k, is_scaled in enumerate(scaled) if is_scaled], self._new("factor", sum(scaled)), strict=True)
        )
        incoming = [number(factors[k]) * c if k in factors else c for k, c in enumerate(cotangents)]
        names = [name for name, is_wanted in zip(self.inputs, wanted, strict=True) if is_wanted]
        outputs = pulled_back(self.outputs, incoming, names)
        return Program((*self.inputs, *[c.name for c in cotangents], *factors.values()), outputs, self.conditions)

    def jvp(self, given: Sequence[bool]) -> Program:
        """The program whose outputs are the tangents of this one's. Its inputs are this one's, then a tangent for each
        of the inputs that is given one."""
        names = [name for name, is_given in zip(self.inputs, given, strict=True) if is_given]
        tangents = self._new("tangent", len(names))
        outputs = pushed_forward(self.outputs, {name: number(t) for name, t in zip(names, tangents, strict=True)})
        return Program((*self.inputs, *tangents), outputs, self.conditions)

    def and_vjp(self, wanted: Sequence[bool], scaled: Sequence[bool]) -> Program:
        """Value and cotangents in one program: the outputs of this one, then those of its vjp."""
        back = self.vjp(wanted, scaled)
        return Program(back.inputs, (*self.outputs, *back.outputs), self.conditions)

    def _new(self, word: str, count: int) -> list[str]:
        """Names that no input has: ``_cotangent_0``; those of the user don't begin with an underscore."""
        taken = sum(name.startswith(f"_{word}_") for name in self.inputs)
        return [f"_{word}_{taken + k}" for k in range(count)]
