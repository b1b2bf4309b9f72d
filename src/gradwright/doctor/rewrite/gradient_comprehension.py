"""A comprehension that takes a gradient a round: ``torch.stack([...])``, ``sum(...)`` or a list of one row a sample."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.rewrite.batched_calls import Batcher
from gradwright.doctor.rewrite.gradient_calls import GradientCall, Rows, find_calls, is_gradient, rows_of
from gradwright.doctor.rewrite.gradient_text import Way, Written, check_tensors, pairs_of, ways_of
from gradwright.doctor.rewrite.gradient_uses import is_whole, used_row_by_row
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.rewrite.splices import Splices, needs_parentheses
from gradwright.doctor.rewrite.unrolled import Change, proposal
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Origins


@dataclass(frozen=True)
class GradientComprehension:
    """``node`` in the statement ``outer``; the rest as in ``GradientLoop``."""

    path: str
    splices: Splices
    origins: Origins
    seen: Seen
    outer: ast.stmt
    node: ast.ListComp | ast.GeneratorExp
    rows: Rows
    calls: tuple[GradientCall, ...]
    kind: Literal["gradient", "batched"]

    @property
    def differentiated(self) -> tuple[tuple[str, str], ...]:
        """What is differentiated with respect to what, as expressions."""
        return pairs_of(self.calls, self.splices)

    def proposals(self, independent: bool) -> tuple[Proposal, ...]:
        """Best first. Raises: DeclinedError, where there is none."""
        ways = ways_of(self.calls, self.kind, independent)
        return tuple(proposal(self._written(way), self.path, self.splices, self.outer, way.what) for way in ways)

    def _written(self, way: Way) -> Change:
        splices, node = self.splices.fresh(), self.node
        whole = is_whole(self.rows, self.outer, splices, self.differentiated)
        written = Written(way, splices, self.seen, self.kind, ":" if whole else self.rows.selected)
        gradients = {call.node: written.gradient(call, None) for call in self.calls}
        batcher = Batcher(
            splices, self.seen, self.origins, self.rows.variable, written.rows, self.rows.elements, gradients
        )
        value = batcher.batched(node.elt)
        if value.kind != "batched":
            raise DeclinedError("every round gives the same")
        text = splices.rendered(*splices.span(node.elt))
        bare = f"({text})" if needs_parentheses(node.elt) else text
        batcher.discard(node)
        call = splices.parent(node)
        if isinstance(call, ast.Call) and call.args == [node] and self._is(call, "sum") and not call.keywords:
            splices.replace(call, f"{bare}.sum(0)" if value.rank else f"{bare}.sum()")
        elif isinstance(call, ast.Call) and call.args[:1] == [node] and self._is(call, "torch.stack"):
            axes = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
            if any(not isinstance(axis, ast.Constant) or axis.value != 0 for axis in axes):
                raise DeclinedError("rows are stacked along another axis")
            alone = isinstance(splices.parent(call), (ast.Assign, ast.Return, ast.Call, ast.keyword))
            splices.replace(call, text if alone else bare)
        elif isinstance(node, ast.ListComp):
            splices.replace(node, f"list({text})")
        else:
            raise DeclinedError("what becomes of the rows is not known")
        return Change(splices, added=written.added, last=self.outer.end_lineno or 0)

    def _is(self, call: ast.Call, name: str) -> bool:
        return self.origins.dotted(call.func) == name


def read_comprehension(
    path: str, splices: Splices, origins: Origins, seen: Seen, outer: ast.stmt
) -> GradientComprehension:
    """The one comprehension of a statement that takes gradients. Raises: DeclinedError."""
    found = [
        node
        for node in ast.walk(outer)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp))
        and any(isinstance(inner, ast.Call) and is_gradient(inner, origins) for inner in ast.walk(node.elt))
    ]
    if len(found) != 1 or len(found[0].generators) != 1 or found[0].generators[0].ifs:
        raise DeclinedError("the loop does not count")
    (node,) = found
    rows = rows_of(node.generators[0], splices.of)
    calls = tuple(find_calls(node.elt, origins, rows.variable, rows.elements))
    check_tensors(calls, seen, splices)
    own = used_row_by_row(splices, node, rows.variable, [call.node for call in calls])
    return GradientComprehension(
        path, splices, origins, seen, outer, node, rows, calls, "gradient" if own else "batched"
    )
