"""Elements as the loops walk over them: ``x[i + 1, j]`` is ``x[1:]``, ``x[i + k]`` a window, ``x[idx[i]]`` a gather."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.dimensions import Dimension
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.layout import diagonals, permuted
from gradwright.doctor.rewrite.loops.spans import ZERO, AgainError, Linear, Spans, Strided, at_least, never_negative
from gradwright.doctor.rewrite.loops.terms import Term, divided, quotient
from gradwright.doctor.rewrite.loops.value import Value, aligned, joined_axes
from gradwright.doctor.rewrite.loops.walks import Walk, walked
from gradwright.doctor.rewrite.source_text import DeclinedError

ONE = Term((), 1)


@dataclass
class Accesses:
    """``walks``: of all accesses so far."""

    spans: Spans
    order: Sequence[Loop]
    torch: ast.expr
    optimistic: bool = True
    walks: list[Walk] = field(default_factory=list)

    def dimension(
        self, part: ast.expr, base: str, axis: int, cell: int, length: Term | None = None
    ) -> Dimension | None:
        """None where the index has to be computed as a tensor. ``length``: of the axis, if ``base`` is no name."""
        if isinstance(part, ast.Slice):
            return self._slice(part, base, axis, cell)
        linear = self.spans.linear(part)
        if linear is not None and not linear.coefficients:
            return Dimension(part)
        length = self.spans.sizes.length(base, axis) if base else length
        if linear is None:
            return self._strided(part, length)
        if len(linear.coefficients) == 1:
            return self._straight(linear, base, axis, length)
        if len(linear.coefficients) == 2:
            return self._window(linear, base, axis, length)
        return None

    # --- one loop ----------------------------------------------------------------------------------------------------

    def _straight(self, linear: Linear, base: str, axis: int, length: Term | None) -> Dimension | None:
        ((loop, factor),) = linear.coefficients.items()
        span = self.spans.span(loop)
        if factor < 0:
            if span.step != 1:
                return None
            first = linear.rest.plus(span.high.plus(ONE, -1), factor)
            beyond = linear.rest.plus(span.low, factor).plus(ONE)
            if not beyond.terms and beyond.constant <= 0 and length is not None:
                first, beyond = first.plus(length), beyond.plus(length)  # x[-1 - i] counts from the end
        else:
            first = linear.rest.plus(span.low, factor)
            beyond = linear.rest.plus(span.high, factor)
        if not first.terms and first.constant < 0:
            return self._rolled(loop, factor, first, beyond, length)
        self.spans.check_first(first)
        if span.longer and (
            length is None or (at_least(length.plus(beyond, -1)) or 0) < 0 or length.minus(beyond) is None
        ):
            raise AgainError("squares")
        step = abs(factor) * span.step
        part, sure, unsure = self._stretch(loop, first, beyond, step, base, axis, length)
        mark = frozenset({loop})
        return Dimension(
            part, (loop,), flip=factor < 0, sure=mark if sure else frozenset(), unsure=mark if unsure else frozenset()
        )

    def _rolled(self, loop: Loop, factor: int, first: Term, beyond: Term, length: Term | None) -> Dimension:
        """``x[i - 1]`` from 0 on: Python counts -1 from the end."""
        if factor == 1 and length is not None and length.plus(beyond, -1) == Term((), -first.constant):
            return Dimension(nodes.whole(), (loop,), roll=-first.constant, sure=frozenset({loop}))
        raise DeclinedError("an index that is negative at first, and so counts from the end")

    def _stretch(
        self, loop: Loop, first: Term, beyond: Term, step: int, base: str, axis: int, length: Term | None
    ) -> tuple[ast.Slice, bool, bool]:
        """``first:beyond:step``, shorter where the text shows that it can be; whether it is surely that long."""
        lower = None if first == ZERO else self.spans.written(first)
        by = None if step == 1 else nodes.constant(step)
        if length is not None:
            over = at_least(beyond.plus(length, -1))
            if over is not None and over >= 0:
                return ast.Slice(lower, None, by), True, False
            short = length.minus(beyond)
            if short is not None and short > 0 and length.terms:
                return ast.Slice(lower, nodes.constant(-short), by), True, False
        if self.optimistic and lower is None and by is None and self._as_long_as_seen(loop, base, axis):
            return ast.Slice(), False, True
        return ast.Slice(lower, self.end(beyond), by), True, False

    def end(self, beyond: Term) -> ast.expr:
        """Where a slice ends: at 0 if its loop has no round, whereas a negative end counts from the other one."""
        written = self.spans.written(beyond)
        if beyond.constant >= 0 and all(count > 0 for _, count in beyond.terms):
            return written
        if never_negative(beyond, self.spans.lows):
            return written
        if "max" in self.spans.sizes.frame.bindings:
            raise DeclinedError("max means something else here")
        return nodes.call(nodes.name("max"), written, nodes.constant(0))

    def _as_long_as_seen(self, loop: Loop, base: str, axis: int) -> bool:
        live = self.spans.sizes.seen.live_ins.get(base)
        if live is None or live.tensor is None or axis >= len(live.tensor.shape):
            return False
        if any(isinstance(what, tuple) and what[0] == "min" for what, _ in self.spans.span(loop).high.terms):
            return False  # something is longer than that
        return live.tensor.shape[axis] == self.spans.rounds_seen(loop)

    # --- two loops, slices -------------------------------------------------------------------------------------------

    def _window(self, linear: Linear, base: str, axis: int, length: Term | None) -> Dimension | None:
        """``x[s * i + k]``: windows of k that start at every s-th element."""
        loops = sorted(linear.coefficients, key=self.order.index)
        for inner, outer in ((loops[1], loops[0]), (loops[0], loops[1])):
            step, sign = linear.coefficients[outer], linear.coefficients[inner]
            ran, walk = self.spans.span(inner), self.spans.span(outer)
            if abs(sign) != 1 or step < 1 or ran.step != 1:
                continue
            width = ran.high.plus(ran.low, -1)
            last = ran.low if sign > 0 else ran.high.plus(ONE, -1)
            first = linear.rest.plus(walk.low, step).plus(last, sign)
            if not first.terms and first.constant < 0:
                continue
            self.spans.check_first(first)
            return self._windows(outer, first, width, step * walk.step, inner, sign < 0, length)
        return None

    def _windows(
        self, outer: Loop, first: Term, width: Term, step: int, inner: Loop | int, back: bool, length: Term | None
    ) -> Dimension:
        part = ast.Slice(None if first == ZERO else self.spans.written(first), None, None)
        window = (self.spans.written(width), nodes.constant(step), inner, back)
        rounds = self.spans.length(outer)
        mark = frozenset({outer, inner} if isinstance(inner, Loop) else {outer})
        if rounds is None:
            raise DeclinedError("windows of a loop with a step")
        if width == Term((), step):
            return self._blocks(outer, first, width, inner, back, length)
        if length is not None:
            # There are (length - first - width) // step + 1 windows.
            space = length.plus(first, -1).plus(width, -1)
            if divided(space, step).plus(ONE) == rounds:
                return Dimension(part, (outer,), window=window, sure=mark)
        return Dimension(part, (outer,), window=window, cut=rounds, sure=mark)

    def _strided(self, part: ast.expr, length: Term | None) -> Dimension | None:
        """``x[i * stride + k]``, where the stride is a name: windows of k, or every stride-th element."""
        found = self.spans.strided(part)
        if found is None or self.spans.span(found.loop).step != 1:
            return None
        if not found.rest.coefficients:
            rounds = self.spans.written(self.spans.span(found.loop).high)
            beyond: ast.expr = ast.BinOp(rounds, ast.Mult(), found.stride)
            first = self._first(found.rest.rest)
            if first is not None:
                beyond = ast.BinOp(first, ast.Add(), beyond)
            return Dimension(ast.Slice(first, beyond, found.stride), (found.loop,), sure=frozenset({found.loop}))
        ((inner, factor), *more) = found.rest.coefficients.items()
        span = self.spans.span(inner)
        if more or factor != 1 or span.step != 1:
            return None
        moved = Strided(found.loop, found.stride, Linear({}, found.rest.rest.plus(span.low)))
        return self._strided_windows(moved, span.high.plus(span.low, -1), inner, length)

    def _strided_windows(self, start: Strided, width: Term, inner: Loop | int, length: Term | None) -> Dimension:
        """A stride that is no positive number raises in ``unfold``."""
        span = self.spans.span(start.loop)
        if span.step != 1:
            raise DeclinedError("windows of a loop with a step")
        part = ast.Slice(self._first(start.rest.rest), None, None)
        window = (self.spans.written(width), start.stride, inner, False)
        mark = frozenset({start.loop, inner} if isinstance(inner, Loop) else {start.loop})
        # Of an attribute the proof does not know that it is a number: there the loop's own count stays in sight.
        stride = self.spans.sizes.term(start.stride) if isinstance(start.stride, ast.Name) else None
        space = length.plus(start.rest.rest, -1).plus(width, -1) if length is not None else None
        if stride is not None and space is not None and quotient(space, stride).plus(ONE) == span.high:
            return Dimension(part, (start.loop,), window=window, sure=mark)
        return Dimension(part, (start.loop,), window=window, cut=span.high, sure=mark)

    def _first(self, first: Term) -> ast.expr | None:
        self.spans.check_first(first)
        return None if first == ZERO else self.spans.written(first)

    def _blocks(
        self, outer: Loop, first: Term, width: Term, inner: Loop | int, back: bool, length: Term | None
    ) -> Dimension:
        """``x[2 * i : 2 * i + 2]``: windows side by side."""
        rounds = self.spans.length(outer)
        if rounds is None or back:
            raise DeclinedError("windows of a loop with a step, or backwards")
        beyond = first.plus(rounds.times(width.constant))
        ends = length is not None and length.minus(beyond) == 0
        upper = None if ends else self.spans.written(beyond)
        part = ast.Slice(None if first == ZERO else self.spans.written(first), upper, None)
        mark = frozenset({outer, inner} if isinstance(inner, Loop) else {outer})
        return Dimension(part, (outer, inner), sure=mark, block=width.constant)

    def _slice(self, part: ast.Slice, base: str, axis: int, cell: int) -> Dimension:
        ends = [self.spans.linear(end) if end is not None else None for end in (part.lower, part.upper)]
        moving = [end.coefficients for end in ends if end is not None and end.coefficients]
        if part.lower is not None and part.upper is not None and part.step is None and ends == [None, None]:
            start, beyond = self.spans.strided(part.lower), self.spans.strided(part.upper)
            if start and beyond and start.like(beyond) and not (start.rest.coefficients or beyond.rest.coefficients):
                length = self.spans.sizes.length(base, axis) if base else None
                return self._strided_windows(start, beyond.rest.rest.plus(start.rest.rest, -1), cell, length)
        unknown = any(end is not None and got is None for end, got in zip((part.lower, part.upper), ends, strict=True))
        if unknown or nodes.names_in(part) & self.spans.changing:
            raise DeclinedError("a slice whose ends the text does not show")
        if not moving:
            return Dimension(part, (cell,))
        low, high = ends
        if part.step is not None or low is None or high is None or low.coefficients != high.coefficients:
            raise DeclinedError("a slice whose length is another in every iteration")
        if len(low.coefficients) != 1 or next(iter(low.coefficients.values())) < 1:
            raise DeclinedError("a slice whose start depends on several loops")
        ((loop, factor),) = low.coefficients.items()
        span = self.spans.span(loop)
        length = self.spans.sizes.length(base, axis) if base else None
        first = low.rest.plus(span.low, factor)
        self.spans.check_first(first)
        width = high.rest.plus(low.rest, -1)
        return self._windows(loop, first, width, factor * span.step, cell, False, length)

    # --- all together ------------------------------------------------------------------------------------------------

    def build(self, base: Value, dims: Sequence[Dimension], rest: Sequence[int]) -> Value:
        """``base`` at its indices; ``rest``: numbers of the axes of the cell that no index speaks of."""
        labels: list[Loop | int] = [*base.axes]
        for dim in dims:
            labels += dim.labels
        labels += rest
        parts = [nodes.whole() for _ in base.axes] + [dim.part for dim in dims]
        node = nodes.subscript(base.node, parts)
        at = len(base.axes)
        for dim in dims:
            if dim.block == 1:
                node = nodes.method(node, "unsqueeze", nodes.constant(at + 1))
            elif dim.block:
                sizes = ast.Tuple([nodes.constant(-1), nodes.constant(dim.block)], ast.Load())
                node = nodes.method(node, "unflatten", nodes.constant(at), sizes)
            if dim.roll:
                node = nodes.method(node, "roll", nodes.constant(dim.roll), nodes.constant(at))
            if dim.flip:
                node = nodes.method(node, "flip", nodes.constant(at))
            if dim.window is not None:
                width, step, label, back = dim.window
                node = nodes.method(node, "unfold", nodes.constant(at), width, step)
                labels.append(label)
                if dim.cut is not None and not isinstance(label, Loop):
                    # A slice that leaves the tensor is shorter, no error: so many windows, or none.
                    cut = self.spans.written(dim.cut)
                    node = nodes.method(node, "narrow", nodes.constant(at), nodes.constant(0), cut)
                elif dim.cut is not None:
                    first = ast.Slice(None, self.spans.written(dim.cut), None)
                    node = nodes.subscript(node, [*([nodes.whole()] * at), first])
                if back:
                    node = nodes.method(node, "flip", nodes.constant(-1))
            at += len(dim.labels)
        unfolded, labels = diagonals(node, labels)
        node = permuted(unfolded, labels, self.order)
        if (walk := walked(node, unfolded, base, dims, rest, self.spans.changing)) is not None:
            self.walks.append(walk)
        loops = tuple(sorted({one for one in labels if isinstance(one, Loop)}, key=self.order.index))
        sure = base.sure.union(*(dim.sure for dim in dims))
        unsure = base.unsure.union(*(dim.unsure for dim in dims))
        cell = sum(not isinstance(label, Loop) for label in labels)
        return Value(node, loops, cell, base.number, base.dtype, base.live, base.domain, sure, unsure, base.carriers)

    def gathered(self, base: Value, dims: Sequence[Dimension], rest: Sequence[int]) -> Value:
        """With at least one index that is a tensor.

        Raises: DeclinedError, where torch would put the axes in another place.
        """
        shared = {loop for dim in dims if dim.advanced for loop in dim.advanced.axes} | set(base.axes)
        several = sum(dim.advanced is not None for dim in dims) > 1
        dims = [self._as_tensor(dim) if _runs_over(dim, shared) else dim for dim in dims]
        at = [index for index, dim in enumerate(dims) if dim.advanced is not None]
        several = several or len(at) > 1
        taken = [dims[index].advanced for index in at]
        indices = [value for value in taken if value is not None]
        if base.axes or any(dim.window or dim.flip or dim.roll or dim.block for dim in dims):
            raise DeclinedError("an index out of a table into something that is itself computed")
        if at != list(range(at[0], at[-1] + 1)) or any(value.cell for value in indices[1:]):
            raise DeclinedError("indices out of tables with others between them")
        axes = joined_axes(indices, self.order)
        for index, node in zip(at, aligned(indices, self.order), strict=True):
            dims[index] = Dimension(node)
        cells = tuple(range(100 + at[0], 100 + at[0] + max(value.cell for value in indices)))
        dims[at[0]].labels = (*axes, *cells)
        sure = frozenset[Loop]().union(*(value.sure for value in indices))
        unsure = frozenset[Loop]().union(*(value.unsure for value in indices))
        built = self.build(base, dims, rest)
        return Value(
            built.node, built.axes, built.cell, base.number, base.dtype, base.live, False, built.sure | sure,
            built.unsure | unsure, base.carriers,
        )  # fmt: skip

    def _as_tensor(self, dim: Dimension) -> Dimension:
        if dim.advanced is not None:
            return dim
        (loop,) = dim.labels
        assert isinstance(loop, Loop)
        if dim.flip or dim.roll or not isinstance(dim.part, ast.Slice) or dim.part.step is not None:
            raise DeclinedError("an index out of a table beside one that runs backwards")
        shift = self.spans.arange(loop, self.torch)
        low = self.spans.written(self.spans.span(loop).low)
        if not nodes.same(dim.part.lower or nodes.constant(0), low):
            raise DeclinedError("an index out of a table beside one that is shifted")
        return Dimension(shift, advanced=Value(shift, (loop,), 0, True, "int64", sure=frozenset({loop})))


def _runs_over(dim: Dimension, loops: set[Loop]) -> bool:
    return any(label in loops for label in dim.labels if isinstance(label, Loop))
