"""One iteration's expression becomes the same expression over all iterations.

What Python computes only where a condition holds, ``torch.where`` computes everywhere. So a branch that is undefined,
or has an infinite derivative, outside its condition gets a harmless argument there: ``where(x > 0, sqrt(x), 0)`` has a
NaN gradient at 0, ``where(x > 0, sqrt(where(x > 0, x, 1)), 0)`` has the loop's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.accesses import Accesses
from gradwright.doctor.rewrite.loops.arithmetic import Arithmetic
from gradwright.doctor.rewrite.loops.calls import is_pure_call, lower_call
from gradwright.doctor.rewrite.loops.cells import matmul
from gradwright.doctor.rewrite.loops.context import Context
from gradwright.doctor.rewrite.loops.dimensions import Dimension
from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.loops.indices import decided, indexed, without_ellipsis
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.known import PAIR
from gradwright.doctor.rewrite.loops.lists import listed_numbers
from gradwright.doctor.rewrite.loops.pairs import membership, one_of_pair
from gradwright.doctor.rewrite.loops.spans import Spans
from gradwright.doctor.rewrite.loops.terms import position_known, size_of
from gradwright.doctor.rewrite.loops.unflattening import by_rows
from gradwright.doctor.rewrite.loops.value import Value, aligned, kind_of, promoted, reordered
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import dotted

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.FloorDiv, ast.Mod)
BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)
_PLAIN = {"bool": "bool", "int": "int", "float": "float"}


class Lowering(Arithmetic):
    """``order``: the loops taken at once in one statement, outermost first: the order of the axes of what comes out."""

    def __init__(self, context: Context, order: Sequence[Loop], *, optimistic: bool) -> None:
        super().__init__(context, order)
        loops = {loop.variable: loop for loop in order}
        changing = context.temporaries - set(loops)
        self.spans = Spans(context.sizes, loops, changing, squares="squares" in context.assumptions, lows=context.fixed)
        self.accesses = Accesses(self.spans, self.order, context.torch, optimistic)

    # --- every kind of expression ------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Value:
        """Raises: DeclinedError, with the reason."""
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if self.stays_the_same(node):
            return self.invariant(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Subscript):
            return self.element(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self.both([self.condition(value) for value in node.values], node.op)
        if isinstance(node, ast.IfExp):
            return self._choice(node)
        if isinstance(node, ast.Call):
            return lower_call(self, node)
        raise DeclinedError(f"{_words(node)} has no form for whole tensors")

    def exactly(self, node: ast.expr) -> Value:
        """With Python's arithmetic in float64, as Python has it: what is cut off to an integer shows the last digit."""
        with self._digits(isinstance(node, ast.BinOp)):
            return self.expression(node)

    @contextmanager
    def _digits(self, wanted: bool) -> Iterator[None]:
        before, self.exact = self.exact, wanted
        try:
            yield
        finally:
            self.exact = before

    def stays_the_same(self, node: ast.expr) -> bool:
        return not nodes.names_in(node) & (set(self.spans.loops) | self.context.temporaries)

    def invariant(self, node: ast.expr) -> Value:
        """Raises: DeclinedError, if it was not seen, or does more than compute."""
        _check_pure(node, self.context.frame)
        described = self.described(node)
        if described is None and (size_of(node)[0] or _counts_rounds(node)):
            return Value(node, number=True, dtype="int")
        if described is None and isinstance(node, ast.UnaryOp | ast.BinOp):
            parts = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
            values = [
                self.invariant(part) if not isinstance(part, ast.Constant) else self._constant(part) for part in parts
            ]
            cell = max(value.cell for value in values)
            number = all(value.number for value in values)
            division = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
            return Value(node, (), cell, number, promoted(values, division=division))
        if described is None and isinstance(node, ast.Name) and node.id in self.context.fixed:
            return Value(node, number=True, dtype="int")
        if described is None:
            raise DeclinedError(f"{ast.unparse(node)} was not seen in the run")
        if described.tensor is not None:
            live = described.tensor
            return Value(node, (), len(live.shape), False, live.dtype)
        if described.type in _PLAIN:
            return Value(node, number=True, dtype=_PLAIN[described.type])
        raise DeclinedError(f"{ast.unparse(node)} is a {described.type}")

    def _constant(self, node: ast.Constant) -> Value:
        kind = type(node.value).__name__
        if kind not in _PLAIN:
            raise DeclinedError(f"{ast.unparse(node)} is no number")
        return Value(node, number=True, dtype=kind)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.spans.loops:
            loop = self.spans.loops[node.id]
            mark = frozenset({loop})
            return Value(self.spans.arange(loop, self.torch), (loop,), 0, True, "int64", sure=mark)
        found = self.context.known.get(node.id)
        if node.id in self.context.lists:
            raise DeclinedError(f"the list {node.id} is used while it grows")
        if found is None:
            raise DeclinedError(f"{node.id} is read before the loop has set it")
        if found.value.domain and self.guards:
            if found.source is None:
                raise DeclinedError(f"{node.id} has a domain, and is used under a condition")
            return self.expression(found.source)
        if any(loop not in self.order for loop in found.value.axes):
            if found.source is not None:
                return self.expression(found.source)  # computed for all rounds of a loop that stays: again in each
            raise DeclinedError(f"{node.id} belongs to iterations of another loop")
        return reordered(found.value, self.order)

    def _attribute(self, node: ast.Attribute) -> Value:
        if (
            isinstance(node.value, ast.Call)
            and node.attr in PAIR
            and (pair := one_of_pair(self, node.value, node.attr))
        ):
            return pair
        owner = self.expression(node.value)
        if node.attr == "ndim" and not owner.number:
            return self.rank(owner)
        if node.attr in ("T", "mT") and owner.cell == 2:
            return owner.with_node(nodes.attribute(owner.node, "mT"))
        if node.attr in ("T", "mT") and owner.cell < 2:
            return owner
        if node.attr == "data" and not owner.number:
            return owner.with_node(nodes.method(owner.node, "detach"))
        raise DeclinedError(f".{node.attr} of what changes in the loop")

    def rank(self, owner: Value) -> Value:
        """How many axes it has in one iteration: as many in every one."""
        return Value(nodes.constant(owner.cell), number=True, dtype="int")

    # --- elements ----------------------------------------------------------------------------------------------------

    def element(self, node: ast.Subscript) -> Value:
        if size_of(node)[0] and not isinstance(node.value, ast.Name):
            return self.size(node)
        base_node, parts = indexed(node)
        return self.at(self._base(base_node), dotted(base_node), parts, node)

    def size(self, node: ast.expr) -> Value:
        """``x[i].shape[0]``, ``len(x[i])``: no iteration has another."""
        tensor, axis = size_of(node)
        assert tensor is not None
        base = ast.parse(tensor, mode="eval").body
        if nodes.names_in(base) & self.context.temporaries:
            raise DeclinedError("the size of something that the loop makes")
        return Value(
            ast.Subscript(nodes.attribute(base, "shape"), nodes.constant(axis), ast.Load()), number=True, dtype="int"
        )

    def _base(self, node: ast.expr) -> Value:
        if not self.stays_the_same(node):
            return self.expression(node)
        live = self.seen.live_ins.get(dotted(node))
        described = live or self.seen.of(node)
        if (
            described is not None
            and described.type in ("list", "tuple")
            and (listed := listed_numbers(self, node, described))
        ):
            return listed
        if described is None or described.tensor is None:
            kind = described.type if described else "something unseen"
            raise DeclinedError(f"{ast.unparse(node)}, whose elements the loop reads, is {_a(kind)}")
        _check_pure(node, self.context.frame)
        carriers = frozenset({name} if (name := dotted(node)) else ())
        return Value(node, (), len(described.tensor.shape), False, described.tensor.dtype, carriers=carriers)

    def at(self, base: Value, name: str, parts: Sequence[ast.expr], node: ast.expr) -> Value:
        """``base`` at the indices; those after the axes that it has already."""
        name = "" if base.axes else name
        base, indices = by_rows(self.accesses, base, name, without_ellipsis(parts, base.cell))
        dims: list[Dimension] = []
        axis = 0
        for number, index in enumerate(indices):
            if nodes.is_none(index.part):
                dims.append(Dimension(index.part, (number,)))
                continue
            dim = self.accesses.dimension(index.part, index.base, index.axis, number, index.length)
            if dim is None:
                advanced = self._index(index.part)
                dim = Dimension(advanced.node, advanced=advanced)
            dims.append(dim)
            axis += 1
        if axis > base.cell:
            raise DeclinedError(f"{ast.unparse(node)} has more indices than axes were seen")
        rest = range(1000, 1000 + base.cell - axis)
        if base.axes and len(dims) == 1 == base.cell and dims[0].advanced is not None:
            return self._picked(base, dims[0].advanced)
        if any(dim.advanced is not None for dim in dims):
            return self.accesses.gathered(base, dims, rest)
        return self.accesses.build(base, dims, rest)

    def _picked(self, base: Value, index: Value) -> Value:
        """``torch.log_softmax(x[i], 0)[t[i]]``: of every row the element that a table names."""
        if index.axes != base.axes or index.cell:
            raise DeclinedError("an index out of a table over other loops than what it picks from")
        if len(base.axes) == 1:
            length = self.spans.length(base.axes[0])
            if length is None:
                raise DeclinedError("an index out of a table in a loop with a step")
            rows = nodes.call(nodes.attribute(self.torch, "arange"), self.spans.written(length))
            node = nodes.subscript(base.node, [rows, index.node])
        else:
            column = nodes.method(index.node, "unsqueeze", nodes.constant(-1))
            picked = nodes.method(base.node, "gather", nodes.constant(-1), column)
            node = nodes.method(picked, "squeeze", nodes.constant(-1))
        return replace(base, node=node, cell=0, sure=base.sure | index.sure, unsure=base.unsure | index.unsure)

    def _index(self, part: ast.expr) -> Value:
        value = self.expression(part)
        if kind_of(value.dtype) != 1:
            raise DeclinedError("an index that is no integer")
        if not value.axes and not value.cell:
            raise DeclinedError("an index that the text does not show")
        mine = nodes.names_in(value.node) - nodes.names_in(self.torch)
        about_it = any(nodes.names_in(condition.node) & mine for condition, _ in self.guards)
        return self.harmless(value, 0)[0] if about_it else value  # ``if t[i] != -100: loss -= p[i, t[i]]``

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.negated(self.condition(node.operand))
        inner = self.expression(node.operand)
        if inner.boolean and (inner.number or not isinstance(node.op, ast.Invert)):
            raise DeclinedError("a comparison has no sign")
        return inner.with_node(ast.UnaryOp(node.op, inner.node))

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(node.op, ast.MatMult):
            return matmul(self, left, right)
        if isinstance(node.op, BITWISE):
            if not all(value.boolean or kind_of(value.dtype) == 1 for value in (left, right)):
                raise DeclinedError("bits of something that is no integer")
            return self.joined(node.op, left, right)
        if not isinstance(node.op, ARITHMETIC):
            raise DeclinedError(f"{_words(node)} has no form for whole tensors")
        return self.settled(node, self.arithmetic(node.op, left, right))

    # --- conditions --------------------------------------------------------------------------------------------------

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            found = membership(self, self.expression(node.left), self.expression(node.comparators[0]))
            return found if isinstance(node.ops[0], ast.In) else self.negated(found)
        if any(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in node.ops):
            raise DeclinedError("a comparison by identity or membership")
        given = (node.left, *node.comparators)
        with self._digits(self.exact or any(self._has_more_digits(side) for side in given)):
            sides = [self.expression(side) for side in given]
        if (known := decided(sides, node.ops)) is not None:
            return Value(ast.Constant(known), number=True, dtype="bool")
        pairs = []
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            pair = self.together([left, right])
            one, other = aligned(pair, self.order)
            pairs.append(self.combined(ast.Compare(one, [op], [other]), pair, "bool"))
        pairs = [replace(pair, live=False, domain=False) for pair in pairs]
        return pairs[0] if len(pairs) == 1 else self.both(pairs, ast.And())

    def _has_more_digits(self, node: ast.expr) -> bool:
        """Whether Python's number may have digits that float32 has not: it was computed, or is a 0.1."""
        number = nodes.number(node)
        if number is not None:
            return not nodes.is_short(number)
        described = self.described(node)
        computed = isinstance(node, ast.BinOp | ast.Call) and not nodes.is_read_as_it_is(node)
        return described is not None and described.type == "float" and (computed or self.stays_the_same(node))

    def condition(self, node: ast.expr) -> Value:
        """What an ``if`` tests."""
        value = self.expression(node)
        if value.cell:
            raise DeclinedError("a condition that is a whole row")
        if value.boolean:
            return value
        compared = ast.Compare(value.node, [ast.NotEq()], [nodes.constant(0)])
        return replace(value, node=compared, dtype="bool", live=False, domain=False)

    def _choice(self, node: ast.IfExp) -> Value:
        test, truth = node.test, True
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, truth = test.operand, not truth
        condition = self.condition(test)
        if isinstance(condition.node, ast.Constant):
            return self.expression(node.body if condition.node.value == truth else node.orelse)
        with self.under(condition, truth):
            then = self.expression(node.body)
        with self.under(condition, not truth):
            other = self.expression(node.orelse)
        return self.where(condition, then, other) if truth else self.where(condition, other, then)


def _counts_rounds(node: ast.expr) -> bool:
    """``len(range(1, n))``, which stands nowhere in the text."""
    ranged = node.args[0] if isinstance(node, ast.Call) and dotted(node.func) == "len" and node.args else None
    return isinstance(ranged, ast.Call) and dotted(ranged.func) == "range" and not position_known(node)


def _check_pure(node: ast.expr, frame: Frame) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and not is_pure_call(inner, frame):
            raise DeclinedError(f"{ast.unparse(inner.func)} is called in every iteration, and may do anything")
        if isinstance(inner, ast.NamedExpr | ast.Lambda | ast.Await | ast.Yield | ast.YieldFrom):
            raise DeclinedError(f"{_words(inner)} in the loop")


def _words(node: ast.AST) -> str:
    return f"a {type(node).__name__}"


def _a(kind: str) -> str:
    return kind if kind.startswith("something") else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
