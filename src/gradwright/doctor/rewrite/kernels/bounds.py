"""Whether every index of a kernel lies within its axis, for all sizes; what must be asked before the call for that.

The kernel's own statements are walked through with what is known at each: how long arrays are, between which ends a
counter runs, what the tests around say. An index from ``-n`` to ``n - 1`` is in range, as in torch. Whatever is not
understood leaves the kernel its checks (NOTE [what a kernel is compiled with]).
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from gradwright.doctor.rewrite.kernels.asking import Asking, UnprovedError, phrased
from gradwright.doctor.rewrite.kernels.drifting import bound_names, drift, steps_once
from gradwright.doctor.rewrite.kernels.integers import ONE, Integers, Shape, parts_of
from gradwright.doctor.rewrite.loops.nodes import integer
from gradwright.doctor.rewrite.loops.terms import Term

MOST_CONDITIONS = 4
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Attribute, ast.Tuple)


def conditions_for(
    body: Sequence[ast.stmt], known: Mapping[str, Term | Shape], facts: Sequence[Term], sizes: Mapping[str, int]
) -> list[str] | None:
    """What must hold for every index of ``body`` to be in range; None if that is not known.

    ``known``: arguments of the kernel, ``facts`` about them; ``sizes``: what may be asked for, as it was in the run.
    """
    try:
        needed = _asked(body, known, facts, sizes)
        for one in needed[:]:
            others = [other for other in needed if other is not one]
            with contextlib.suppress(UnprovedError):
                _asked(body, known, [*facts, *others], {})
                needed = others
    except UnprovedError:
        return None
    return [phrased(one) for one in needed] if len(needed) <= MOST_CONDITIONS else None


def _asked(
    body: Sequence[ast.stmt], known: Mapping[str, Term | Shape], facts: Sequence[Term], sizes: Mapping[str, int]
) -> list[Term]:
    """Raises: UnprovedError."""
    walk = _Walk(dict(known), facts, sizes)
    walk.block(body)
    return walk.asking.asked


class _Walk:
    def __init__(self, known: dict[str, Term | Shape], facts: Sequence[Term], sizes: Mapping[str, int]) -> None:
        self.it = Integers(known, facts)
        self.asking = Asking(self.it, sizes)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.expression(node.value)
            self._bind(node.targets[0], node.value)
        elif isinstance(node, ast.AugAssign):
            self.expression(node.value)
            self._bind(node.target, ast.BinOp(_loaded(node.target), node.op, node.value))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and not node.orelse:
            self._for(node, node.target.id)
        elif isinstance(node, ast.While) and not node.orelse:
            self._while(node)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.Expr | ast.Return):
            if node.value is not None:
                self.expression(node.value)
        elif not isinstance(node, ast.Pass | ast.Break | ast.Continue | ast.Raise):
            raise UnprovedError

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            self.expression(target)
        elif isinstance(target, ast.Name):
            self._know(target.id, self.it.of(value) or self.it.shape(value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            found = [self.it.of(one) or self.it.shape(one) for one in value.elts]
            for one, what in zip(target.elts, found, strict=True):
                if not isinstance(one, ast.Name):
                    raise UnprovedError
                self._know(one.id, what)
        else:
            raise UnprovedError

    def _know(self, name: str, what: Term | Shape | None) -> None:
        self.it.known.pop(name, None)
        if what is not None:
            self.it.known[name] = what

    def _if(self, node: ast.If) -> None:
        self.expression(node.test)
        for holds, body in ((True, node.body), (False, node.orelse)):
            with self._forgetting(*body):
                self.it.facts += self.it.told(node.test, holds=holds)
                self.block(body)
        for holds, body in ((False, node.body), (True, node.orelse)):
            if body and isinstance(body[-1], ast.Break | ast.Continue | ast.Raise):
                self.it.facts += self.it.told(node.test, holds=holds)

    def _for(self, node: ast.For, counter: str) -> None:
        self.expression(node.iter)
        if not isinstance(node.iter, ast.Call) or ast.unparse(node.iter.func) != "range":
            raise UnprovedError
        start, stop, step = self.it.ends(node.iter.args)
        sign = 1 if (step or 0) > 0 else -1
        value = self.it.fresh(counter)
        gone = value.plus(start, -1).times(sign) if start and step else None

        def enter() -> None:
            self.it.known[counter] = value
            if gone is not None:
                self.it.facts.append(gone)
            if stop is not None and step:
                self.it.facts.append(stop.plus(value, -1).times(sign).plus(ONE, -1))

        self._rounds(node, enter, gone)

    def _while(self, node: ast.While) -> None:
        def enter() -> None:
            self.expression(node.test)
            self.it.facts += self.it.told(node.test)

        self._rounds(node, enter, None)

    def _rounds(self, node: ast.For | ast.While, enter: Callable[[], None], gone: Term | None) -> None:
        """Any round of the loop; ``gone``: at least as many as there were before it.

        An array keeps its shape if every round that begins with that shape ends with it.
        """
        left = any(isinstance(one, ast.Break | ast.Continue) for one in ast.walk(node))
        bound = bound_names([node])
        kept = {one: what for one in bound if isinstance(what := self.it.known.get(one), tuple) and not left}
        while True:
            asked = list(self.asking.asked)
            with self._forgetting(node):
                self._begin(node, bound - set(kept), gone)
                enter()
                self.block(node.body)
                changed = [one for one, shape in kept.items() if not self._has_shape(one, shape)]
            if not changed:
                break
            self.asking.asked = asked
            kept = {one: what for one, what in kept.items() if one not in changed}
        self.it.known |= kept

    def _has_shape(self, array: str, shape: Shape) -> bool:
        found = self.it.known.get(array)
        if not isinstance(found, tuple) or len(found) != len(shape):
            return False
        apart = [one.plus(other, -1) for one, other in zip(found, shape, strict=True)]
        return all(self.asking.sure(one) and self.asking.sure(one.times(-1)) for one in apart)

    def _begin(self, node: ast.For | ast.While, changed: set[str], gone: Term | None) -> None:
        """What is known of names that earlier rounds have changed."""
        for one in changed:
            before = self.it.known.pop(one, None)
            way = drift(one, node.body)
            if not isinstance(before, Term) or not way:
                continue
            self.it.known[one] = value = self.it.fresh(one)
            moved = value.plus(before, -1).times(way)
            self.it.facts.append(moved)
            if gone is not None and steps_once(one, node.body):
                self.it.facts.append(gone.plus(moved, -1))

    @contextlib.contextmanager
    def _forgetting(self, *statements: ast.stmt) -> Iterator[None]:
        """What is found out inside is forgotten behind it, and so is what a name was that is bound there."""
        known, count = dict(self.it.known), len(self.it.facts)
        yield
        self.it.known = {name: what for name, what in known.items() if name not in bound_names(statements)}
        del self.it.facts[count:]

    # --- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> None:
        """Every index in it. Raises: UnprovedError."""
        if isinstance(node, ast.Subscript):
            self._subscript(node)
        elif isinstance(node, ast.BoolOp):
            with self._forgetting():
                for one in node.values:
                    self.expression(one)
                    self.it.facts += self.it.told(one, holds=isinstance(node.op, ast.And))
        elif isinstance(node, ast.IfExp):
            self.expression(node.test)
            for holds, one in ((True, node.body), (False, node.orelse)):
                with self._forgetting():
                    self.it.facts += self.it.told(node.test, holds=holds)
                    self.expression(one)
        elif isinstance(node, _COMPUTED):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr | ast.keyword):
                    self.expression(child.value if isinstance(child, ast.keyword) else child)
        elif not isinstance(node, ast.Constant | ast.Name):
            raise UnprovedError

    def _subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and integer(node.slice) is not None:
            return  # a tuple, of which Numba knows the length
        self.expression(node.value)
        shape, parts = self.it.shape(node.value), parts_of(node)
        if shape is None or len(parts) > len(shape):
            raise UnprovedError
        for part, size in zip(parts, shape, strict=False):
            if isinstance(part, ast.Slice):
                for end in (part.lower, part.upper, part.step):
                    if end is not None:
                        self.expression(end)
                continue
            self.expression(part)
            index = self.it.of(part)
            if index is None:
                raise UnprovedError
            self.asking.require(size.plus(index, -1).plus(ONE, -1))
            if not self.asking.sure(index.plus(size)):
                self.asking.require(index)


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body
