"""The numbers that a loop's variable runs through, rising; and what an index is in terms of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.sizes import Sizes
from gradwright.doctor.rewrite.loops.terms import Term, size_of
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import dotted

ZERO = Term()


@dataclass(frozen=True)
class Span:
    """``low``, ``low + step``, ... below ``high``. ``falls``: the loop runs through them from the last one down.

    ``longer``: one number more than the loop ever takes, so that a triangle lies in a square.
    """

    low: Term
    high: Term
    step: int
    falls: bool = False
    longer: bool = False


class AgainError(Exception):
    """What was taken for granted does not hold: to be written again without ``assumption``."""

    def __init__(self, assumption: str) -> None:
        super().__init__(assumption)
        self.assumption = assumption


@dataclass(frozen=True)
class Linear:
    """``sum(coefficient * variable) + rest``."""

    coefficients: Mapping[Loop, int] = field(default_factory=dict)
    rest: Term = ZERO

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        counts = dict(self.coefficients)
        for loop, count in other.coefficients.items():
            counts[loop] = counts.get(loop, 0) + factor * count
        return Linear({loop: count for loop, count in counts.items() if count}, self.rest.plus(other.rest, factor))


@dataclass(frozen=True)
class Strided:
    """``loop * stride + rest``, where the stride is a name that means the same in every iteration."""

    loop: Loop
    stride: ast.expr
    rest: Linear

    def like(self, other: Strided) -> bool:
        return self.loop is other.loop and nodes.same(self.stride, other.stride)


class Spans:
    """``loops``: those taken at once, by their variable. ``changing``: names that mean something else every time."""

    def __init__(
        self,
        sizes: Sizes,
        loops: Mapping[str, Loop],
        changing: frozenset[str],
        *,
        squares: bool = True,
        lows: Mapping[str, int] | None = None,
    ) -> None:
        self.sizes, self.loops, self.changing, self.squares = sizes, loops, changing, squares
        self.lows = lows or {}

    def span(self, loop: Loop) -> Span:
        """A triangle's loop in full: from the first number that it ever takes to the last.

        Raises: DeclinedError.
        """
        start, stop = self.linear(loop.start), self.linear(loop.stop)
        if start is None or stop is None:
            raise DeclinedError(f"the range of {loop.variable} is no sum of sizes")
        square = self._square(loop, start, stop)
        if square is not None:
            return square
        if loop.step > 0:
            return Span(self.extreme(start, -1), self.extreme(stop, 1), loop.step)
        if loop.step != -1:
            raise DeclinedError(f"{loop.variable} falls by more than one")
        one = Term((), 1)
        return Span(self.extreme(stop, -1).plus(one), self.extreme(start, 1).plus(one), 1, falls=True)

    def _square(self, loop: Loop, start: Linear, stop: Linear) -> Span | None:
        """For ``range(i + 1)`` and ``range(i + 1, n)``: the numbers of i, so that a square becomes a triangle."""
        if loop.step != 1:
            return None
        if len(start.coefficients) == 1 and not stop.coefficients:
            ((outer, count),) = start.coefficients.items()
            span = self.span(outer)
            if count == 1 and start.rest in (ZERO, Term((), 1)) and span.high.minus(stop.rest) in (0, -1):
                return Span(span.low, stop.rest, 1)
        if len(stop.coefficients) == 1 and not start.coefficients:
            ((outer, count),) = stop.coefficients.items()
            span = self.span(outer)
            wanted = (ZERO, Term((), 1)) if self.squares else (Term((), 1),)
            if count == 1 and stop.rest in wanted and span.low.minus(start.rest) in (0, 1):
                return Span(start.rest, span.high, 1, longer=stop.rest == ZERO)
        return None

    def triangle(self, loops: Sequence[Loop]) -> tuple[str, int, Loop, Loop] | None:
        """``("triu", 1, i, j)`` where the only bound that other loops set makes such a triangle of i and j."""
        found = []
        for loop in loops:
            start, stop = self.linear(loop.start), self.linear(loop.stop)
            for bound, verb in ((start, "triu"), (stop, "tril")):
                if bound is None or not bound.coefficients:
                    continue
                ((outer, count), *more) = bound.coefficients.items()
                low = self.span(outer).low.minus(self.span(loop).low)
                if more or count != 1 or bound.rest.terms or low is None or loop.step != 1 or outer.step != 1:
                    return None
                diagonal = bound.rest.constant + low - (1 if verb == "tril" else 0)
                found.append((verb, diagonal, outer, loop))
        return found[0] if len(found) == 1 else None

    def triangular(self, loop: Loop) -> bool:
        """Whether its bounds depend on other loops that are taken at once."""
        start, stop = self.linear(loop.start), self.linear(loop.stop)
        return bool((start and start.coefficients) or (stop and stop.coefficients))

    def length(self, loop: Loop) -> Term | None:
        """How many rounds it has, if those are all numbers between two."""
        span = self.span(loop)
        return span.high.plus(span.low, -1) if span.step == 1 else None

    def linear(self, node: ast.expr) -> Linear | None:
        """None for an index that is no sum of loop variables and of what stays the same."""
        if isinstance(node, ast.Name) and node.id in self.loops:
            return Linear({self.loops[node.id]: 1})
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.linear(node.operand)
            return Linear().plus(inner, -1) if inner else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left, right = self.linear(node.left), self.linear(node.right)
            if left is None or right is None:
                return None
            return left.plus(right, 1 if isinstance(node.op, ast.Add) else -1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for number, other in ((node.left, node.right), (node.right, node.left)):
                factor, inner = nodes.integer(number), self.linear(other)
                if factor is not None and inner is not None:
                    return Linear().plus(inner, factor)
        if _moving(node) & (self.changing | set(self.loops)):
            return None
        rest = self.sizes.term(node)
        return Linear({}, rest) if rest is not None else None

    def strided(self, node: ast.expr) -> Strided | None:
        """What an index is in terms of a loop from 0 on whose variable is multiplied by a name; None for others."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for variable, stride in ((node.left, node.right), (node.right, node.left)):
                loop = self.loops.get(variable.id) if isinstance(variable, ast.Name) else None
                fixed = dotted(stride) and not nodes.names_in(stride) & (self.changing | set(self.loops))
                if (
                    loop is not None
                    and fixed
                    and self.span(loop).low == ZERO
                    and (self.sizes.seen_number(stride) or 0) > 0
                ):
                    return Strided(loop, stride, Linear())
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            return None
        left, right = self.strided(node.left), self.linear(node.right)
        sign = 1 if isinstance(node.op, ast.Add) else -1
        if left is None and sign > 0:
            left, right = self.strided(node.right), self.linear(node.left)
        if left is None or right is None or left.loop in right.coefficients:
            return None
        return Strided(left.loop, left.stride, left.rest.plus(right, sign))

    def extreme(self, bound: Linear, sign: int) -> Term:
        """The largest (1) or smallest (-1) value of a bound, over the loops around."""
        result = bound.rest
        for loop, count in bound.coefficients.items():
            span = self.span(loop)
            largest = (count > 0) == (sign > 0)
            end = span.high.plus(Term((), -1)) if largest else span.low
            result = result.plus(end, count)
        return result

    def written(self, term: Term) -> ast.expr:
        """Raises: DeclinedError, if a size has no name here."""
        node = self.sizes.written(term)
        if node is None:
            raise DeclinedError("a size that the text has no words for")
        return node

    def arange(self, loop: Loop, torch: ast.expr, **keywords: ast.expr) -> ast.expr:
        """``torch.arange(n)``: the loop's variable as a tensor."""
        span = self.span(loop)
        low, high = self.written(span.low), self.written(span.high)
        args = [high] if span.low == ZERO and span.step == 1 else [low, high]
        if span.step != 1:
            args.append(nodes.constant(span.step))
        return nodes.call(nodes.attribute(torch, "arange"), *args, **keywords)

    def check_first(self, first: Term) -> None:
        """Raises: DeclinedError, if the first index that a loop reads may be negative, and so count from the end."""
        if not never_negative(first, self.lows):
            shifted = first.constant < 0 and all(count > 0 for _, count in first.terms)
            known = shifted and first.terms and not any(what[0] in self.lows for what, _ in first.terms)  # type: ignore[index]  # an affine form: its terms are pairs
            node = self.sizes.written(first) if known else None
            if node is None or (self.sizes.seen_number(node) or -1) < 0:
                raise DeclinedError("an index that may be negative, and so count from the end")

    def rounds_seen(self, loop: Loop) -> int | None:
        """How many rounds the loop had in the run."""
        start, stop = self.sizes.seen_number(loop.start), self.sizes.seen_number(loop.stop)
        return None if start is None or stop is None else len(range(start, stop, loop.step))


def _moving(node: ast.expr) -> set[str]:
    """The names that a size depends on. All rows of a tensor are as long: ``len(x[i])`` is no other for another i."""
    if isinstance(node, ast.Call) and dotted(node.func) == "min":
        return set().union(*map(_moving, node.args))
    tensor, _ = size_of(node)
    return {tensor.split(".")[0]} if tensor else nodes.names_in(node)


def never_negative(term: Term, lows: Mapping[str, int]) -> bool:
    """Whether an index is at least 0: sizes are, variables of loops that stay are at least ``lows``."""
    result = term.constant
    for what, count in term.terms:
        if count < 0:
            return (at_least(term) or -1) >= 0 or _halved(term)
        name = what[0] if isinstance(what, tuple) and isinstance(what[0], str) else ""
        result += count * lows.get(name, 0)
    return result >= 0


def _halved(term: Term) -> bool:
    """``n - n // 2``, which no n makes negative."""
    result = term
    for what, count in term.terms:
        if isinstance(what, tuple) and what[0] == "FloorDiv" and count == -1:
            result = result.plus(Term(((what, -1),)), -1).plus(what[1], -1)
    return result.constant >= 0 and all(count > 0 for _, count in result.terms)


def at_least(term: Term) -> int | None:
    """A number that the term is never below: what is left of ``2 * (n // 2) + 1 - n``."""
    result = term
    for what, count in term.terms:
        if isinstance(what, tuple) and what[0] == "FloorDiv" and count > 0 and what[2] == Term((), count):
            # count * (t // count) is at least t - (count - 1)
            result = result.plus(Term(((what, count),)), -1).plus(what[1]).plus(Term((), 1 - count))
    return None if result.terms else result.constant
