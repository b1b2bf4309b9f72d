"""May two accesses meet in one element, in rounds that stand in a given order?

An access stands for its element's indices as linear forms of loop variables, of what does not change while the nest
runs, and of unknowns. Negative indices count from the end, so an index that may be negative is two cases.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gradwright.doctor.rewrite.loops.expressions import (
    literal,
    picks_one,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Loop, Statement
from gradwright.doctor.rewrite.loops.rows import Rows
from gradwright.doctor.rewrite.loops.systems import Linear, feasible, variable
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted

# How the round of the first access stands to that of the second, in one loop: the same, earlier, or anything.
Order = Literal["=", "<", "*"]


@dataclass(frozen=True, eq=False)
class Access:
    """``indices``: none for the whole of ``base``. ``node`` is shown to the user."""

    base: str
    indices: tuple[ast.expr, ...]
    node: ast.expr


@dataclass
class Case:
    """Linear forms that are 0, and that are not negative."""

    zero: list[Linear] = field(default_factory=list)
    bounds: list[Linear] = field(default_factory=list)

    def __add__(self, other: Case) -> Case:
        return Case(self.zero + other.zero, self.bounds + other.bounds)

    def possible(self) -> bool:
        return feasible(self.zero, self.bounds)


class Meetings:
    """``changing``: names whose value the nest changes; ``resized``: those of which even the size changes."""

    def __init__(self, changing: frozenset[str], resized: frozenset[str], seen: Seen) -> None:
        self.changing, self.resized, self.seen = changing, resized, seen
        self._count = itertools.count()
        self._rounds: dict[tuple[int, str], Case] = {}
        self._rows = Rows(self)
        self._elements: dict[tuple[int, int, str], list[tuple[list[Linear], Case]]] = {}

    def meet(
        self, first: tuple[Statement, Access], second: tuple[Statement, Access], orders: Mapping[Loop, Order]
    ) -> bool:
        """Whether the accesses may meet with their rounds ordered so; loops that are not told are free."""
        (one, access), (two, other) = first, second
        around = self.rounds(one, "1") + self.rounds(two, "2") + _ordered(orders)
        access, other = self._rows.matched((one, access), (two, other))
        if access.base != other.base:
            return around.possible()
        for mine, case in self.elements(one, access, "1"):
            for theirs, also in self.elements(two, other, "2"):
                together = around + case + also
                together.zero += [a - b for a, b in zip(mine, theirs, strict=False)]
                if together.possible():
                    return True
        return False

    def exceeds(self, statement: Statement, larger: ast.expr, smaller: ast.expr, least: int) -> bool:
        """Whether ``larger - smaller`` is at least ``least`` in every round."""
        case = Case()
        apart = self.form(larger, statement, "1", case) - self.form(smaller, statement, "1", case)
        return not (self.rounds(statement, "1") + case + Case([], [apart.times(-1).plus(least - 1)])).possible()

    def never_negative(self, statement: Statement, access: Access) -> bool:
        """Whether no index of the access counts from the end."""
        plain = [index for index in access.indices if not isinstance(index, ast.Slice)]
        forms = [self.form(index, statement, "1", Case()) for index in plain]
        around = self.rounds(statement, "1")
        return not any((around + Case([], [form.times(-1).plus(-1)])).possible() for form in forms)

    # --- what is known of one round -----------------------------------------------------------------------------------

    def rounds(self, statement: Statement, tag: str) -> Case:
        """What the loops and guards around a statement say of the round it runs in."""
        known = self._rounds.get((id(statement), tag))
        if known is None:
            known = Case()
            for loop in statement.loops:
                self._bounds(loop, statement, tag, known)
            for guard in statement.guards:
                self._guard(guard, statement, tag, known, holds=True)
            self._rounds[id(statement), tag] = known
        return known

    def _bounds(self, loop: Loop, statement: Statement, tag: str, case: Case) -> None:
        own, rising = variable(_tagged(loop, tag)), loop.step > 0
        starts = _limits(loop.start, "max" if rising else "min")
        stops = _limits(loop.stop, "min" if rising else "max")
        for start in starts:
            form = self.form(start, statement, tag, case)
            case.bounds.append(own - form if rising else form - own)
        for stop in stops:
            form = self.form(stop, statement, tag, case)
            case.bounds.append((form - own if rising else own - form).plus(-1))
        if abs(loop.step) > 1 and len(starts) == 1:
            count = variable(f"rounds of {_tagged(loop, tag)}")
            case.zero.append(own - self.form(loop.start, statement, tag, case) - count.times(loop.step))
            case.bounds.append(count)

    def _guard(self, guard: ast.expr, statement: Statement, tag: str, case: Case, *, holds: bool) -> None:
        if isinstance(guard, ast.UnaryOp) and isinstance(guard.op, ast.Not):
            self._guard(guard.operand, statement, tag, case, holds=not holds)
        elif isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And if holds else ast.Or):
            for part in guard.values:
                self._guard(part, statement, tag, case, holds=holds)
        elif isinstance(guard, ast.Compare) and len(guard.ops) == 1 and self._integral(guard, statement):
            left = self.form(guard.left, statement, tag, case)
            right = self.form(guard.comparators[0], statement, tag, case)
            operator = type(guard.ops[0])
            if not holds:
                operator = _OPPOSITE.get(operator, ast.In)
            if operator is ast.Eq:
                case.zero.append(left - right)
            elif operator in (ast.Lt, ast.LtE):
                case.bounds.append((right - left).plus(-1 if operator is ast.Lt else 0))
            elif operator in (ast.Gt, ast.GtE):
                case.bounds.append((left - right).plus(-1 if operator is ast.Gt else 0))

    def _integral(self, guard: ast.Compare, statement: Statement) -> bool:
        """Whether only integers are compared: loop variables, sizes, literals."""
        variables = {loop.variable for loop in statement.loops}
        for node in ast.walk(guard):
            if isinstance(node, ast.Name) and node.id not in variables:
                found = what(node, self.seen)
                if found is None or found.type != "int":
                    return False
            if isinstance(node, ast.Constant) and type(node.value) is not int:
                return False
            if isinstance(node, (ast.Call, ast.Subscript, ast.Attribute, ast.Div, ast.Pow)):
                return False
        return True

    # --- elements -----------------------------------------------------------------------------------------------------

    def elements(self, statement: Statement, access: Access, tag: str) -> list[tuple[list[Linear], Case]]:
        """The index forms of the access, in every case that is possible: which of them count from the end."""
        key = (id(statement), id(access), tag)
        if key not in self._elements:
            choices = []
            for axis, index in enumerate(access.indices):
                if _is_odd(index, self.seen):
                    break
                choices.append([*self._index(index, statement, tag, f"{access.base}.shape[{axis}]")])
            found = []
            for chosen in itertools.product(*choices):
                case = Case()
                for _, one in chosen:
                    case += one
                if (self.rounds(statement, tag) + case).possible():
                    found.append(([form for form, _ in chosen], case))
            self._elements[key] = found
        return self._elements[key]

    def _index(self, index: ast.expr, statement: Statement, tag: str, size: str) -> Iterator[tuple[Linear, Case]]:
        length = variable(size)
        if not isinstance(index, ast.Slice):
            case = Case()
            form = self.form(index, statement, tag, case)
            yield form, case + Case([], [form, (length - form).plus(-1)])
            yield form + length, case + Case([], [form.times(-1).plus(-1), form + length])
            return
        element = variable(f"element {next(self._count)}")
        inside = Case([], [element, (length - element).plus(-1)])
        falls = index.step is not None and (literal(index.step) or 0) <= 0
        for low in self._end(index.lower, statement, tag):
            for high in self._end(index.upper, statement, tag):
                case = inside + low[1] + high[1]
                if low[0] is not None and not falls:
                    case.bounds.append(element - low[0])
                if high[0] is not None and not falls:
                    case.bounds.append((high[0] - element).plus(-1))
                yield element, case

    def _end(self, end: ast.expr | None, statement: Statement, tag: str) -> Iterator[tuple[Linear | None, Case]]:
        """One end of a slice: as it is if not negative, else nothing is said."""
        if end is None:
            yield None, Case()
            return
        case = Case()
        form = self.form(end, statement, tag, case)
        yield form, case + Case([], [form])
        yield None, case + Case([], [form.times(-1).plus(-1)])

    # --- linear forms -------------------------------------------------------------------------------------------------

    def form(self, node: ast.expr, statement: Statement, tag: str, case: Case) -> Linear:
        """A linear form, with unknowns for what is not linear; what is known of those goes to ``case``."""
        known = literal(node)
        if known is not None:
            return Linear({}, known)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.form(node.operand, statement, tag, case).times(-1)
        if isinstance(node, ast.Name):
            loop = next((one for one in statement.loops if one.variable == node.id), None)
            if loop is not None:
                return variable(_tagged(loop, tag))
        if isinstance(node, ast.BinOp):
            found = self._operation(node, statement, tag, case)
            if found is not None:
                return found
        variables = {loop.variable for loop in statement.loops}
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if names & (variables | self.changing) - (_only_sizes(node) - self.resized):
            return variable(f"unknown {next(self._count)}")
        return variable(_size_name(node) or ast.unparse(node))

    def _operation(self, node: ast.BinOp, statement: Statement, tag: str, case: Case) -> Linear | None:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = (self.form(one, statement, tag, case) for one in (node.left, node.right))
            return left + right if isinstance(node.op, ast.Add) else left - right
        if isinstance(node.op, ast.Mult):
            for factor, other in ((node.left, node.right), (node.right, node.left)):
                known = literal(factor)
                if known is not None:
                    return self.form(other, statement, tag, case).times(known)
        divisor = literal(node.right)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and divisor is not None and divisor > 0:
            inside = self.form(node.left, statement, tag, case)
            quotient = variable(f"quotient {next(self._count)}")
            rest = inside - quotient.times(divisor)
            case.bounds += [rest, rest.times(-1).plus(divisor - 1)]
            return quotient if isinstance(node.op, ast.FloorDiv) else rest
        return None


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.NotEq: ast.Eq
}  # fmt: skip


def _tagged(loop: Loop, tag: str) -> str:
    return f"{loop.variable} {id(loop)} {tag}"


def _ordered(orders: Mapping[Loop, Order]) -> Case:
    case = Case()
    for loop, order in orders.items():
        one, two = variable(_tagged(loop, "1")), variable(_tagged(loop, "2"))
        if order == "=":
            case.zero.append(one - two)
        elif order == "<":
            case.bounds.append((two - one if loop.step > 0 else one - two).plus(-1))
    return case


def _limits(node: ast.expr, function: str) -> Sequence[ast.expr]:
    """``min(a, b)`` as a stop is two limits."""
    if isinstance(node, ast.Call) and dotted(node.func) == function and len(node.args) > 1 and not node.keywords:
        return node.args
    return (node,)


def _is_odd(index: ast.expr, seen: Seen) -> bool:
    """An index that takes several elements, or after which it is not known which axis comes next: a mask, ``...``."""
    return not isinstance(index, ast.Slice) and not picks_one(index, seen)


def _size_name(node: ast.expr) -> str:
    """``x.shape[0]`` for ``len(x)`` and ``x.size(0)`` as well."""
    if isinstance(node, ast.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return f"{ast.unparse(node.args[0])}.shape[0]"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        axis = literal(node.args[0]) if len(node.args) == 1 else None
        return f"{ast.unparse(node.func.value)}.shape[{axis}]" if axis is not None and axis >= 0 else ""
    return ""


def _only_sizes(node: ast.AST) -> set[str]:
    """Names of which an expression reads only sizes, which writing elements does not change."""
    if isinstance(node, ast.Call) and _size_name(node):
        inside = node.args[0] if dotted(node.func) == "len" else node.func.value  # type: ignore[attr-defined]  # x.size(0)
        return {inside.id} if isinstance(inside, ast.Name) else set()
    if isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name):
        return {node.value.id}
    return set().union(*(_only_sizes(child) for child in ast.iter_child_nodes(node)))
