"""How a kernel goes about the stages of a row program: what is held from one pass to the next, and shorter forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gradwright.kernels.formula.expression import NUMBER, Expression, call, in_order, number
from gradwright.kernels.formula.stages import CLASS, HELD, Outcome, RowProgram, Stage

_PLAIN: Final = frozenset(
    [
        *("input", "constant", "condition_input", "add", "sub", "mul", "neg", "abs", "sign", "minimum", "maximum"),
        *("clamp", "where", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "given"),
    ]
)
_PROGRAMS: Final = 256  # that are remembered: operands of other shapes change nothing here


def rewritten(
    output: Expression, change: Callable[[Expression, Sequence[Expression]], Expression | None]
) -> Expression:
    """The formula with ``change(node, its arguments once changed)`` in place of each node, where that is not None."""
    done: dict[bytes, Expression] = {}
    for node in in_order([output]):
        # What a ``given`` has beside its value is for derivatives only, and stays as it is.
        arguments = [done.get(argument.key, argument) for argument in node.arguments]
        made = change(node, arguments)
        if made is None:
            is_same = all(one is other for one, other in zip(arguments, node.arguments, strict=True))
            made = node if is_same else Expression(node.operation, tuple(arguments), node.value, node.name)
        done[node.key] = made
    return done[output.key]


@lru_cache(_PROGRAMS)
def below_the_maximum(program: RowProgram) -> RowProgram:
    """exp(x - m), with m the row's maximum of x, is that of a number never above 0: shorter code."""
    most = {stage.name: stage.formula.key for stage in program.stages if stage.how == "max"}

    def change(node: Expression, arguments: Sequence[Expression]) -> Expression | None:
        if node.operation in ("exp", "expm1") and node.arguments[0].operation == "sub":
            x, m = node.arguments[0].arguments
            if m.operation == "input" and most.get(m.name) == x.key:
                return call(f"{node.operation}_below_zero", *arguments)
        return None

    if not most:
        return program
    stages = [stage._replace(formula=rewritten(stage.formula, change)) for stage in program.stages]
    results = [Outcome(rewritten(result.formula, change), result.way) for result in program.results]
    return RowProgram(program.inputs, tuple(stages), tuple(results))


@dataclass(frozen=True)
class Passes:
    """``groups`` of stages and ``results``, in which ``HELD`` stands for the value of ``held``, of an element: the
    pass of group number ``at`` computes it."""

    groups: tuple[tuple[Stage, ...], ...]
    results: tuple[Outcome, ...]
    held: Expression | None = None
    at: int = -1


@lru_cache(_PROGRAMS)
def passes_of(program: RowProgram, can_hold: bool) -> Passes:
    """The passes over a row. ``can_hold``: there is room for one number of each element between two passes."""
    groups, results = program.groups, program.results
    if not can_hold:
        return Passes(groups, results)
    varying = {name for name, axes in program.inputs if axes in ("element", "class")} | {CLASS}
    of_elements = [result.formula for result in results if result.way in ("element", "class")]
    for place, group in enumerate(groups):
        first = [stage.formula for stage in group if stage.how in ("max", "sum")]
        later = [stage.formula for each in groups[place + 1 :] for stage in each if stage.how in ("max", "sum")]
        held = _worth_holding(first, [*later, *of_elements], varying)
        if held is not None:
            of_held = held.key

            def change(node: Expression, _: Sequence[Expression], of_held: bytes = of_held) -> Expression | None:
                return number(HELD) if node.key == of_held else None

            return Passes(
                tuple(
                    tuple(
                        stage._replace(formula=rewritten(stage.formula, change))
                        if number_of > place and stage.how in ("max", "sum")
                        else stage
                        for stage in each
                    )
                    for number_of, each in enumerate(groups)
                ),
                tuple(
                    Outcome(rewritten(result.formula, change), result.way)
                    if result.way in ("element", "class")
                    else result
                    for result in results
                ),
                held,
                place,
            )
    return Passes(groups, results)


def _worth_holding(first: Iterable[Expression], later: Iterable[Expression], varying: set[str]) -> Expression | None:
    """The dearest number that both need, and of those of the same work the simplest."""
    needed = {node.key for node in in_order(later)}
    dear: dict[bytes, frozenset[bytes]] = {}
    varies: set[bytes] = set()
    found: Expression | None = None
    for node in in_order(first):
        if node.name in varying or any(argument.key in varies for argument in node.arguments):
            varies.add(node.key)
        below = frozenset[bytes]().union(*[dear[argument.key] for argument in node.arguments if argument.key in dear])
        dear[node.key] = below if node.operation in _PLAIN or node.key not in varies else below | {node.key}
        # What comes first is what the others are made of.
        if (
            node.kind == NUMBER
            and node.key in needed
            and len(dear[node.key]) > (len(dear[found.key]) if found is not None else 0)
        ):
            found = node
    return found


def apart_from_one(formula: Expression, rows: set[str]) -> tuple[Expression, set[str]]:
    """The formula where the class is none of those that it asks for (``k == y``), and the names of these y.

    ``where(k == y, a, b)`` becomes b; a condition that is used otherwise stays.
    """
    names: set[str] = set()

    def change(node: Expression, arguments: Sequence[Expression]) -> Expression | None:
        if node.operation == "where" and (name := _asked_for(node.arguments[0])) in rows:
            names.add(str(name))
            return arguments[2]
        return None

    return rewritten(formula, change), names


def _asked_for(condition: Expression) -> str | None:
    if condition.operation != "eq":
        return None
    for one, other in (condition.arguments, condition.arguments[::-1]):
        if one.operation == other.operation == "input" and one.name == CLASS:
            return other.name
    return None
