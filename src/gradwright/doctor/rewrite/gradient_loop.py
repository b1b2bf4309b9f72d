"""A loop over the samples of a batch that takes one gradient a sample: all rows are taken at once instead.

Either by the gradient of a sum over the batch, where the samples are known to be independent, or by
``gw.batch_jacobian``, which looks, or takes them one by one in a batch of its own. What the loop does with each row is
done with all of them (``batched``); where that is not possible, the rows are made ahead of the loop, which stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gradwright.doctor.rewrite.batched_body import Body
from gradwright.doctor.rewrite.batched_calls import Batcher
from gradwright.doctor.rewrite.gradient_calls import GradientCall, Rows, find_calls, rows_of
from gradwright.doctor.rewrite.gradient_comprehension import GradientComprehension, read_comprehension
from gradwright.doctor.rewrite.gradient_text import Way, Written, check_tensors, pairs_of, ways_of, whole_jacobian
from gradwright.doctor.rewrite.gradient_uses import Lists, is_whole, reads_of, stacked_lists, used_row_by_row
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.rewrite.splices import Splices
from gradwright.doctor.rewrite.unrolled import Change, proposal
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.liveness import block_of, read_after
from gradwright.doctor.source.names import events
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Origins

Kind = Literal["gradient", "batched"]


@dataclass(frozen=True)
class GradientLoop:
    """A loop as it was read: ``outer`` is the statement at the line asked for, ``loop`` (maybe inside) the samples'.

    ``kind``: "gradient" where each round takes its own row of its gradient, "batched" where it takes it whole.
    """

    path: str
    splices: Splices
    origins: Origins
    seen: Seen
    outer: ast.For
    loop: ast.For
    rows: Rows
    calls: tuple[GradientCall, ...]
    kind: Kind

    @property
    def differentiated(self) -> tuple[tuple[str, str], ...]:
        """What is differentiated with respect to what, as expressions."""
        return pairs_of(self.calls, self.splices)

    def proposals(self, independent: bool) -> tuple[Proposal, ...]:
        """Best first. ``independent``: the samples are proved to be so, in the graph that was seen.

        Raises: DeclinedError with the reason, where there is none.
        """
        made: list[Proposal] = []
        reason = "nothing was found to write"
        for way in ways_of(self.calls, self.kind, independent):
            for write in (self._for_all_pairs, self._for_all_samples, self._ahead):
                try:
                    change = write(way)
                    made.append(proposal(change, self.path, self.splices, self.outer, way.what))
                except DeclinedError as error:
                    reason = str(error)
                    continue
                break
        if not made:
            raise DeclinedError(reason)
        return tuple(made)

    def _names(self, node: ast.AST) -> set[str]:
        return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}

    # --- all samples at once -----------------------------------------------------------------------------------------

    def _for_all_samples(self, way: Way) -> Change:
        splices = self.splices.fresh()
        whole = is_whole(self.rows, self.loop, splices, self.differentiated)
        written = Written(way, splices, self.seen, self.kind, ":" if whole else self.rows.selected)
        ahead = whole_jacobian(self.calls, written, self._bound_in(self.outer))
        gradients = {call.node: written.gradient(call, ahead) for call in self.calls}
        lists = stacked_lists(splices, self.loop, self.outer)
        batcher = Batcher(
            splices, self.seen, self.origins, self.rows.variable, written.rows, self.rows.elements, gradients
        )
        body = Body(batcher, self.loop, lists.names)
        body.write()
        self._check_dead(body, lists)
        return Change(
            splices,
            added=written.added,
            ahead=(ahead.line,) if ahead else (),
            unrolled=self.loop,
            removed=lists.made,
            last=max([self.outer.end_lineno or 0, *lists.lines]),
        )

    def _for_all_pairs(self, way: Way) -> Change:
        """Two loops that do nothing but go through samples and outputs: every pair of them is a sample of its own."""
        splices = self.splices.fresh()
        inner, column = self._pairs()
        if way.how != "jacobian" or self.kind != "gradient":
            raise DeclinedError("the loop over outputs stays")
        rows = ":" if is_whole(self.rows, self.loop, splices, self.differentiated) else self.rows.selected
        chosen = "" if (rows, column) == (":", ":") else f"[{rows}]" if column == ":" else f"[{rows}, {column}]"
        written = Written(way, splices, self.seen, self.kind, ":")
        instead = written.jacobian(self.calls[0], splices.of(self.calls[0].base)) + f"{chosen}.flatten(0, 1)"
        gradients = {call.node: replace(written.gradient(call, None), instead=instead) for call in self.calls}
        batcher = Batcher(splices, self.seen, self.origins, self.rows.variable, ":", {}, gradients)
        # In the other order a list would get its items in another order.
        body = Body(batcher, inner, {}, inner=int(self.loop is not self.outer))
        body.write()
        self._check_dead(body, Lists(), self.outer)
        last = self.outer.end_lineno or 0
        return Change(splices, added=written.added, unrolled=self.outer, inner=inner, last=last)

    def _pairs(self) -> tuple[ast.For, str]:
        """The inner one of two loops with nothing between them, and which outputs they go through: ":" for all."""
        inner = self.outer.body[0]
        if len(self.outer.body) != 1 or not isinstance(inner, ast.For) or len(self.calls) != 1:
            raise DeclinedError("no two loops with nothing between them")
        other = rows_of(inner if self.loop is self.outer else self.outer, self.splices.of)
        call = self.calls[0]
        column = call.columns[0] if len(call.columns) == 1 else None
        uses = [node for node in ast.walk(inner) if isinstance(node, ast.Name) and node.id == other.variable]
        own = [node for node in uses if node is not column and isinstance(node.ctx, ast.Load)]
        if not isinstance(column, ast.Name) or column.id != other.variable or own or other.elements or call.summed:
            raise DeclinedError("the output's number is used otherwise")
        reads = [self.splices.parent(read) for read in reads_of(self.splices, self.loop, call.node)]
        rows = {_first_index(read.slice) for read in reads if isinstance(read, ast.Subscript)}
        inside = {*ast.walk(call.node), *rows}
        sample = [node for node in ast.walk(inner) if isinstance(node, ast.Name) and node.id == self.rows.variable]
        if self.rows.elements or any(node not in inside and isinstance(node.ctx, ast.Load) for node in sample):
            raise DeclinedError("the sample's number is used otherwise")
        if self._bound_in(self.outer) & self._names(call.base):
            raise DeclinedError("what is differentiated changes in the loop")
        base = self.splices.of(call.base)
        every = {f"{base}.shape[1]", f"{base}.size(1)", f"{base}.shape[-1]", f"len({base}[0])"}
        return inner, ":" if other.stop in every and not other.start else other.selected

    def _check_dead(self, body: Body, lists: Lists, loop: ast.For | None = None) -> None:
        """Names that had the last sample's value and now have another must not be read."""
        loop = loop or self.loop
        first, last = loop.lineno, loop.end_lineno or 0
        changed = self._bound_in(loop) - body.carried
        if left := sorted(changed & read_after(self.splices.tree, first, last)):
            raise DeclinedError(f"{', '.join(left)} of the last sample is read after the loop")

    # --- the loop stays ----------------------------------------------------------------------------------------------

    def _ahead(self, way: Way) -> Change:
        """Every row is made before the loop, which takes its own."""
        splices = self.splices.fresh()
        written = Written(way, splices, self.seen, self.kind, ":")
        bound = self._bound_in(self.outer)
        ahead = whole_jacobian(self.calls, written, bound, always=True)
        assert ahead is not None
        for call in self.calls:
            written.row_of_ahead(call, ahead, self.rows.variable)
        return Change(splices, added=written.added, ahead=(ahead.line,), last=self.outer.end_lineno or 0)

    def _bound_in(self, loop: ast.For) -> frozenset[str]:
        return frozenset(event.name for event in events([loop], into_functions=False) if event.kind == "bind")


def read_gradient_loop(path: str, text: str, line: int, seen: Seen) -> GradientLoop | GradientComprehension:
    """The loop at ``line``, whose variable or that of a loop inside it chooses the sample; or a comprehension there.

    ``seen``: what its expressions are, on the live graph. Raises: DeclinedError with the reason.
    """
    tree = ast.parse(text)
    splices, origins = Splices(text, tree), Origins(tree)
    try:
        block, _ = block_of(tree, line)
    except LookupError as error:
        raise DeclinedError(str(error)) from error
    outer = next(statement for statement in block if statement.lineno == line)
    if not isinstance(outer, ast.For):
        return read_comprehension(path, splices, origins, seen, outer)
    found: list[GradientLoop] = []
    reason = "the loop does not count"
    for loop in _nested(outer):
        try:
            rows = rows_of(loop, splices.of)
            calls = tuple(find_calls(loop, origins, rows.variable, rows.elements))
            check_tensors(calls, seen, splices)
            row_by_row = used_row_by_row(splices, loop, rows.variable, [call.node for call in calls])
            kind: Kind = "gradient" if row_by_row else "batched"
            found.append(GradientLoop(path, splices, origins, seen, outer, loop, rows, calls, kind))
        except DeclinedError as error:
            reason = str(error)
    for one in found:
        if one.kind == "gradient":
            return one
    if not found:
        raise DeclinedError(reason)
    return found[0]


def _first_index(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, ast.Tuple) else node


def _nested(loop: ast.For) -> Iterator[ast.For]:
    """The loop, and loops straight inside it, outermost first."""
    yield loop
    for statement in loop.body:
        if isinstance(statement, ast.For):
            yield from _nested(statement)
