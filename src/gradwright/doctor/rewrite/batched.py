"""Expressions of one sample become expressions of all of them: the same text, with the batch as the first axis.

NOTE [Batched by the text]: what one round of a loop computes of its own sample, element by element, is computed of all
samples by the very same operations, once each ``x[j]`` is ``x``: only what speaks of axes (sums, norms, indices) and
values of different ranks have to be told of the new first axis. Ranks are those of the run; lengths are never used.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.batched_values import UNIFORM, Gradient, Value
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.rewrite.splices import Splices, needs_parentheses
from gradwright.doctor.source.seen import Seen, SeenValue, key_of
from gradwright.doctor.source.statements import Origins


@dataclass
class Samples:
    """Writes into ``splices`` what turns one sample's expressions into those of ``rows`` (":" or "a:b") of the batch.

    ``names``: what the body's names are so far. ``variable``: the loop's. ``elements``: names for ``over[variable]``.
    ``gradients``: by the node of a call of autograd.grad, what stands there afterwards.
    """

    splices: Splices
    seen: Seen
    origins: Origins
    variable: str
    rows: str
    elements: Mapping[str, ast.expr]
    gradients: Mapping[ast.Call, Gradient]
    names: dict[str, Value] = field(default_factory=dict)
    tuples: dict[str, Gradient] = field(default_factory=dict)

    # --- values ------------------------------------------------------------------------------------------------------

    def rank(self, node: ast.expr) -> int:
        """The number of axes that an expression had in the run; none for a number."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return 0
        ranks = {_rank(value) for value in self.seen.values.get(key_of(node), ())}
        rank = next(iter(ranks), None)
        if len(ranks) != 1 or rank is None:
            raise DeclinedError(f"{self.splices.of(node)} is not always a tensor of one rank")
        return rank

    def visit(self, node: ast.expr) -> Value:
        """What an expression is, with the edits made that it needs. Raises: DeclinedError."""
        if not self.varies(node):
            return UNIFORM
        method = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if method is None:
            raise DeclinedError(f"{self.splices.of(node)} can't be taken for all samples at once")
        value: Value = method(node)
        return value

    def varies(self, node: ast.AST) -> bool:
        """Whether anything in it depends on the loop's variable."""
        return any(
            (
                isinstance(inner, ast.Name)
                and (inner.id == self.variable or inner.id in self.elements or inner.id in self.names)
            )
            or inner in self.gradients
            for inner in ast.walk(node)
        )

    def batched(self, node: ast.expr) -> Value:
        """The same, for what must have one value a sample, or the same for all."""
        value = self.visit(node)
        if value.kind not in ("batched", "uniform"):
            raise DeclinedError(f"{self.splices.of(node)} is used other than row by row")
        return value

    def of_name(self, node: ast.Name) -> Value:
        if node.id == self.variable:
            return Value("row")
        if node.id in self.elements:
            over = self.elements[node.id]
            text = self.splices.of(over)
            self.splices.replace(node, f"({text})" if needs_parentheses(over) else text)
            return Value("batched", self.rank(node))
        return self.names[node.id]

    # --- operators ---------------------------------------------------------------------------------------------------

    def of_binop(self, node: ast.BinOp) -> Value:
        if isinstance(node.op, ast.MatMult):
            return self.product(node.left, node.right, node)
        return self.pointwise([node.left, node.right])

    def of_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            raise DeclinedError("a condition of one sample")
        return self.batched(node.operand)

    def of_compare(self, node: ast.Compare) -> Value:
        plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        if len(node.ops) != 1 or not isinstance(node.ops[0], plain):
            raise DeclinedError("a condition of one sample")
        return self.pointwise([node.left, node.comparators[0]])

    def pointwise(self, operands: list[ast.expr]) -> Value:
        """Operands of lower rank get the axes that broadcasting would put before their own: behind the batch's."""
        values = [self.batched(operand) for operand in operands]
        if all(value.kind == "uniform" for value in values):
            return UNIFORM
        ranks = [
            value.rank if value.rank is not None else self.rank(operand)
            for value, operand in zip(values, operands, strict=True)
        ]
        most = max(ranks)
        for value, operand, rank in zip(values, operands, ranks, strict=True):
            if value.kind == "batched" and rank < most:
                if isinstance(operand, ast.Name) and self._starts_uniform(operand):
                    raise DeclinedError(f"{operand.id} is a number first and a tensor later")
                self.splices.append(operand, f"[:{', None' * (most - rank)}]")
        return Value("batched", most)

    def _starts_uniform(self, name: ast.Name) -> bool:
        found = self.seen.of(name)
        return found is None or found.tensor is None

    def product(self, left: ast.expr, right: ast.expr, node: ast.expr) -> Value:
        one, other = self.batched(left), self.batched(right)
        ranks = (
            one.rank if one.rank is not None else self.rank(left),
            other.rank if other.rank is not None else self.rank(right),
        )
        if one.kind == "batched" and other.kind == "uniform" and ranks[0] == 1:
            return Value("batched", ranks[1] - 1)
        if one.kind == "uniform" and other.kind == "batched" and ranks[1] == 1 and ranks[0] in (1, 2):
            texts = [self.text_of(operand) for operand in (right, left)]
            self.discard(node)
            self.splices.replace(node, f"({texts[0]} @ {texts[1]}{'.T' * (ranks[0] - 1)})")
            return Value("batched", ranks[0] - 1)
        if one.kind == other.kind == "batched" and ranks == (1, 1):
            texts = [self.text_of(operand) for operand in (left, right)]
            self.discard(node)
            self.splices.replace(node, f"({texts[0]} * {texts[1]}).sum(1)")
            return Value("batched", 0)
        raise DeclinedError("a matrix product of one sample")

    def text_of(self, node: ast.expr) -> str:
        text = self.splices.rendered(*self.splices.span(node))
        return f"({text})" if needs_parentheses(node) else text

    def discard(self, node: ast.expr) -> None:
        start, end = self.splices.span(node)
        self.splices.edits = [edit for edit in self.splices.edits if not (start <= edit[0] and edit[1] <= end)]

    # --- indices -----------------------------------------------------------------------------------------------------

    def of_subscript(self, node: ast.Subscript) -> Value:
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        base = self.visit(node.value)
        if base.kind == "gradients":
            if not (isinstance(node.slice, ast.Constant) and node.slice.value == 0):
                raise DeclinedError("autograd.grad gives one gradient here")
            found = self.gradient_of(node.value)
            if found.unpacked:
                self.splices.replace_span(self.splices.span(node.value)[1], self.splices.span(node)[1], "")
            return Value(found.kind, found.rank)
        if base.kind == "row":
            raise DeclinedError("the loop's variable is no tensor")
        if base.kind == "batched":
            self._check_indices(parts)
            if not (isinstance(parts[0], ast.Constant) and parts[0].value is Ellipsis):
                at = self.splices.span(node.slice)[0]
                self.splices.replace_span(at, at, ":, ")
            return Value("batched", self.rank(node))
        places = [
            number for number, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == self.variable
        ]
        if len(places) != 1 or (base.kind == "gradient" and places != [0]):
            raise DeclinedError(f"{self.splices.of(node)} is no row of the sample's own")
        self._check_indices([part for part in parts if part is not parts[places[0]]])
        if base.kind == "uniform":
            self._require_tensor(node.value)
        if places[0] and any(not self.is_integer(part) for part in parts[: places[0]]):
            raise DeclinedError(f"{self.splices.of(node)}: the sample is not its first axis")
        self._row(node, parts, places[0])
        return Value("batched", self.rank(node))

    def gradient_of(self, node: ast.expr) -> Gradient:
        """What stands in the place of a call of autograd.grad, or of a name for what it returned."""
        if isinstance(node, ast.Name):
            return self.tuples[node.id]
        assert isinstance(node, ast.Call)
        return self.gradients[node]

    def _row(self, node: ast.Subscript, parts: list[ast.expr], place: int) -> None:
        """``x[j]`` as ``x``, ``x[j, k]`` as ``x[:, k]``."""
        if len(parts) > 1:
            self.splices.replace(parts[place], self.rows)
            return
        rows = "" if self.rows == ":" else f"[{self.rows}]"
        self.splices.replace_span(self.splices.span(node.value)[1], self.splices.span(node)[1], rows)

    def _check_indices(self, parts: list[ast.expr]) -> None:
        for part in parts:
            for piece in [part.lower, part.upper, part.step] if isinstance(part, ast.Slice) else [part]:
                special = isinstance(piece, ast.Constant) and piece.value in (None, Ellipsis)
                if piece is None or special:
                    continue
                if self.varies(piece) or not self.is_integer(piece):
                    raise DeclinedError(f"the index {self.splices.of(piece)} is no number")

    def is_integer(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp):
            node = node.operand
        if isinstance(node, ast.Constant):
            return type(node.value) is int
        found = None if isinstance(node, ast.Slice) else self.seen.of(node)
        return found is not None and found.type == "int"

    def _require_tensor(self, node: ast.expr) -> None:
        found = self.seen.of(node)
        if found is None or found.tensor is None:
            raise DeclinedError(f"{self.splices.of(node)} is no tensor")


def _rank(value: SeenValue) -> int | None:
    if value.tensor is not None:
        return len(value.tensor.shape)
    return 0 if value.type in ("int", "float", "bool") else None
