"""What a kernel computes for each row of a tensor: stages that reduce the row, then results made of them.

A row is all elements along one axis (the classes of one pixel, the vocabulary of one token). An input has a value for
each element, for each row, for each class (a place along the axis), or one for all.

NOTE [Stages]: ``max`` and ``sum`` reduce a formula over the classes of a row; ``at y`` takes it at class number y (0
where there is no such class); ``row`` computes with what the row has by now. ``k`` is the number of the class. Later
stages and the results read earlier ones by name. Stages that do not need one another share a pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

from gradwright.kernels.formula.expression import Expression, count_operations, in_order
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read

CLASS: Final = "k"  # the number of the class, in a formula
HELD: Final = "_held"  # the input that stands for what an earlier pass has computed; none of the user's looks like it

Axes = Literal["element", "row", "class", "number"]
How = Literal["max", "sum", "at", "row"]
Way = Literal["element", "row", "total", "class"]


class Stage(NamedTuple):
    """One value for each row. ``place``: the name of the row's class number, of a stage ``at``."""

    name: str
    how: How
    formula: Expression
    place: str = ""


class Outcome(NamedTuple):
    """One result: stored for every element, for every row, summed over all rows, or over the rows of each class."""

    formula: Expression
    way: Way


@dataclass(frozen=True, eq=False)
class RowProgram:
    """``inputs``: names, and what each has a value for. ``results``: of ways "element" and "class" they may read all
    inputs; of "row" and "total" only what a row has.

    >>> softmax = row_program(
    ...     {"z": "element"},
    ...     {"m": "max: z", "s": "sum: exp(z - m)"},
    ...     [("element", "exp(z - m) / s")],
    ... )
    >>> [[stage.name for stage in group] for group in softmax.groups]
    [['m'], ['s']]
    """

    inputs: tuple[tuple[str, Axes], ...]
    stages: tuple[Stage, ...]
    results: tuple[Outcome, ...]

    @cached_property
    def key(self) -> str:
        """A digest of all that it computes; the same in every process."""
        text = repr((self.inputs, [(s.name, s.how, s.place) for s in self.stages], [r.way for r in self.results]))
        formulas = [stage.formula.key for stage in self.stages] + [result.formula.key for result in self.results]
        return hashlib.blake2b(text.encode() + b"".join(formulas), digest_size=16).hexdigest()

    @cached_property
    def operations(self) -> int:
        """How many distinct ones there are for an element."""
        formulas = [stage.formula for stage in self.stages] + [result.formula for result in self.results]
        return count_operations(formulas)

    @cached_property
    def axes(self) -> Mapping[str, Axes]:
        return dict(self.inputs)

    @cached_property
    def groups(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages, those that are computed in the same pass together; see NOTE [Stages]."""
        level: dict[str, tuple[int, int]] = {}
        found: dict[tuple[int, int], list[Stage]] = {}
        for stage in self.stages:
            needs = [level[name] for name in names_in(stage.formula) | {stage.place} if name in level]
            passes = max((each[0] for each in needs), default=0)
            # After its pass come the row's own values, each after those it is made of.
            if stage.how == "row":
                mine = (passes, 1 + max((each[1] for each in needs if each[0] == passes), default=0))
            else:
                mine = (passes + 1, 0)
            level[stage.name] = mine
            found.setdefault(mine, []).append(stage)
        return tuple(tuple(found[place]) for place in sorted(found))

    def formulas(self, chosen: Sequence[Expression]) -> Program:
        """These formulas over all that they may read."""
        names = [name for name, _ in self.inputs] + [stage.name for stage in self.stages] + [CLASS]
        return Program(tuple(names), tuple(chosen))


def names_in(formula: Expression) -> frozenset[str]:
    """The inputs that its value is made of."""
    return frozenset(node.name for node in in_order([formula]) if node.operation == "input")


def row_program(
    inputs: Mapping[str, Axes], stages: Mapping[str, str], results: Sequence[tuple[Way, str]]
) -> RowProgram:
    """Out of texts: a stage is ``"sum: exp(z - m)"``, ``"max: z"``, ``"row: log(s)"`` or ``"at y: z"``; those that no
    result needs are left out.

    Raises: UsageError, where a formula can't be read; ValueError, where it names what is not there.
    """
    outcomes = [Outcome(read(text, may_be_constant=True).output, way) for way, text in results]
    needed = set().union(*[names_in(outcome.formula) for outcome in outcomes])
    made: list[Stage] = []
    for name, text in reversed(list(stages.items())):
        if name in needed:
            head, _, body = text.partition(":")
            how, _, place = head.strip().partition(" ")
            if how not in ("max", "sum", "at", "row") or (how == "at") != bool(place):
                raise ValueError(f"{name} = {text}: no stage")
            stage = Stage(name, how, read(body.strip(), may_be_constant=True).output, place)  # type: ignore[arg-type]  # one of How
            needed |= names_in(stage.formula) | ({place} if place else set())
            made.append(stage)
    program = RowProgram(tuple(inputs.items()), tuple(reversed(made)), tuple(outcomes))
    _require_known(program)
    return program


def _require_known(program: RowProgram) -> None:
    """ValueError, where a formula names what is not there by then, or a row's what it has several values of."""
    several = {name: axes in ("element", "class") for name, axes in program.inputs} | {CLASS: True}
    for name, formula, of_a_row in (
        *[(stage.name, stage.formula, stage.how == "row") for stage in program.stages],
        *[("", result.formula, result.way in ("row", "total")) for result in program.results],
    ):
        for mine in names_in(formula):
            if mine not in several:
                raise ValueError(f"{name or 'a result'}: there is no {mine}")
            if of_a_row and several[mine]:
                raise ValueError(f"{name or 'a result'}: {mine} has more than one value in a row")
        if name:
            several[name] = False
