"""What the integers of a kernel are, as sums of sizes and counters, and what a test says of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.kernels.inequalities import follows
from gradwright.doctor.rewrite.loops.nodes import integer, is_whole
from gradwright.doctor.rewrite.loops.terms import Term

ONE = Term((), 1)
Shape = tuple[Term, ...]


class Integers:
    """``known``: integers and the shapes of arrays, by name, where the walk is. ``facts``: sums that are not below zero
    there. A sum is of names for what no longer changes: an argument's axis, a counter in one of its rounds."""

    def __init__(self, known: dict[str, Term | Shape], facts: Sequence[Term]) -> None:
        self.known = known
        self.facts = list(facts)
        self._count = 0

    def fresh(self, wanted: str) -> Term:
        """A new name of an integer of which only facts tell."""
        self._count += 1
        return Term(((f"{wanted}#{self._count}", 1),))

    def sure(self, goal: Term) -> bool:
        return follows(goal, self.facts)

    # --- integers ----------------------------------------------------------------------------------------------------

    def of(self, node: ast.expr) -> Term | None:
        """None for what is no integer, or one that nothing is known of."""
        value = integer(node)
        if value is not None:
            return Term((), value)
        if isinstance(node, ast.Name):
            found = self.known.get(node.id)
            return found if isinstance(found, Term) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.of(node.operand)
            return inner.times(-1) if inner else None
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node)
        if isinstance(node, ast.Subscript):
            return self._size(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._called(node.func.id, node.args)
        return None

    def _arithmetic(self, node: ast.BinOp) -> Term | None:
        left, right = self.of(node.left), self.of(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add | ast.Sub):
            return left.plus(right, 1 if isinstance(node.op, ast.Add) else -1)
        if isinstance(node.op, ast.Mult) and not (left.terms and right.terms):
            return left.times(right.constant) if not right.terms else right.times(left.constant)
        if isinstance(node.op, ast.FloorDiv) and not right.terms and right.constant > 0:
            found = self.fresh("quotient")
            rest = left.plus(found, -right.constant)
            self.facts += [rest, Term((), right.constant - 1).plus(rest, -1)]
            return found
        if isinstance(node.op, ast.Mod) and self.sure(right.plus(ONE, -1)):
            found = self.fresh("rest")
            self.facts += [found, right.plus(found, -1).plus(ONE, -1)]
            return found
        return None

    def _size(self, node: ast.Subscript) -> Term | None:
        """``x.shape[0]``"""
        axis = integer(node.slice)
        if not isinstance(node.value, ast.Attribute) or node.value.attr != "shape" or axis is None:
            return None
        shape = self.shape(node.value.value)
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None

    def _called(self, function: str, args: Sequence[ast.expr]) -> Term | None:
        if function == "len" and len(args) == 1:
            if isinstance(args[0], ast.Call) and ast.unparse(args[0].func) == "range":
                return self._rounds(args[0].args)
            shape = self.shape(args[0])
            return shape[0] if shape else None
        if function == "int" and len(args) == 1:
            return self.of(args[0])
        if function in ("min", "max") and len(args) > 1:
            parts = [self.of(one) for one in args]
            found, sign = self.fresh(function), 1 if function == "max" else -1
            self.facts += [found.plus(part, -1).times(sign) for part in parts if part is not None]
            return found
        return None

    def _rounds(self, args: Sequence[ast.expr]) -> Term | None:
        start, stop, step = self.ends(args)
        if start is None or stop is None or step not in (1, -1):
            return None
        found = self.fresh("rounds")
        self.facts += [found, found.plus(stop.plus(start, -1), -step)]
        return found

    def ends(self, args: Sequence[ast.expr]) -> tuple[Term | None, Term | None, int | None]:
        """Start, stop and step of a range."""
        if len(args) == 1:
            return Term(), self.of(args[0]), 1
        return self.of(args[0]), self.of(args[1]), integer(args[2]) if len(args) > 2 else 1

    # --- shapes ------------------------------------------------------------------------------------------------------

    def shape(self, node: ast.expr) -> Shape | None:
        """Of an array in memory, or a view of one; None for what is unknown."""
        if isinstance(node, ast.Name):
            found = self.known.get(node.id)
            return found if isinstance(found, tuple) else None
        if isinstance(node, ast.Subscript):
            whole = self.shape(node.value)
            parts = parts_of(node)
            if whole is None or len(parts) > len(whole):
                return None
            left = [self._stretch(part, size) for part, size in zip(parts, whole, strict=False)]
            return (*(one for one in left if one is not None), *whole[len(parts) :])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.empty" and node.args:
            given = node.args[0]
            sizes = [self.of(one) for one in (given.elts if isinstance(given, ast.Tuple) else [given])]
            return tuple(self.fresh("size") if one is None else one for one in sizes)
        return None

    def _stretch(self, part: ast.expr, size: Term) -> Term | None:
        """How long an axis is behind a slice; None behind an index, where it is gone."""
        if not isinstance(part, ast.Slice):
            return None
        if is_whole(part):
            return size
        start = self.of(part.lower) if part.lower else Term()
        stop = self.of(part.upper) if part.upper else size
        if part.step is None and start is not None and stop is not None:
            length = stop.plus(start, -1)
            if all(self.sure(one) for one in (start, length, size.plus(stop, -1))):
                return length
            if part.step is None:
                return Term(((("stretch", start, stop, size), 1),))  # the same of the same
        return self.fresh("stretch")

    # --- tests -------------------------------------------------------------------------------------------------------

    def told(self, test: ast.expr, *, holds: bool = True) -> list[Term]:
        """What is not below zero where the test is true, or false."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.told(test.operand, holds=not holds)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
            return [fact for one in test.values for fact in self.told(one, holds=holds)]
        if not isinstance(test, ast.Compare) or (not holds and len(test.ops) > 1):
            return []
        sides = [self.of(one) for one in (test.left, *test.comparators)]
        found: list[Term] = []
        for op, left, right in zip(test.ops, sides, sides[1:], strict=False):
            if left is not None and right is not None:
                found += _compared(op, right.plus(left, -1), holds=holds)
        return found


def _compared(op: ast.cmpop, apart: Term, *, holds: bool) -> list[Term]:
    """``apart``: by how much the right side is more than the left."""
    if isinstance(op, ast.Eq if holds else ast.NotEq):
        return [apart, apart.times(-1)]
    if isinstance(op, ast.Lt if holds else ast.GtE):
        return [apart.plus(ONE, -1)]
    if isinstance(op, ast.LtE if holds else ast.Gt):
        return [apart]
    if isinstance(op, ast.Gt if holds else ast.LtE):
        return [apart.times(-1).plus(ONE, -1)]
    if isinstance(op, ast.GtE if holds else ast.Lt):
        return [apart.times(-1)]
    return []


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
