"""``out[mask] = y[mask]`` becomes ``out = torch.where(mask, y, out)``: nothing is searched, gathered or scattered."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.choose_by_mask import choose_by_mask
from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.loops.known import SMOOTH
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import CostlyExpression, Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.masked_writes import Write, function_blocks, read_write
from gradwright.doctor.source.expressions.suspect import (
    ELEMENTWISE,
    FunctionNode,
    called,
    gives_new_memory,
    integer,
    is_number,
    is_pure_call,
    own_nodes,
)
from gradwright.doctor.source.statements import function_classes
from gradwright.ground.syntax import dotted_names

FILLS = {"zeros_like": "0", "zeros": "0", "new_zeros": "0", "ones_like": "1", "ones": "1", "new_ones": "1"}
EMPTY = frozenset({"empty_like", "empty", "new_empty"})
OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def select_by_mask(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    if any(isinstance(fact, CostlyExpression) and fact.pattern == "mask product" for fact in facts):
        return choose_by_mask(finding, facts, source)
    splice = Splice(source)
    suspect = splice.suspect("masked write", finding)
    statement = suspect.node
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    block = next(block for block in function_blocks(suspect.function) if statement in block)
    pair = next((one for one in suspect.others if isinstance(one, ast.Assign)), None)
    text = _Selection(splice, suspect.function, block, statement, pair).text()
    what = "torch.where chooses between whole tensors: nothing is gathered and scattered"
    return (splice.proposal("select_by_mask", suspect.function, text, what),)


class _Selection:
    """One masked write, with the write of the complement beside it and the creation above it, if there are any."""

    def __init__(
        self,
        splice: Splice,
        function: FunctionNode,
        block: list[ast.stmt],
        statement: ast.Assign | ast.AugAssign,
        pair: ast.Assign | None,
    ) -> None:
        self._splice = splice
        self._function = function
        self._block = block
        self._statement = statement
        self._pair = pair
        self._torch = splice.torch(function)
        owners = function_classes(splice.tree, splice.origins)
        self._in_function_class = any(function in owner.body for owner in owners)

    def text(self) -> str:
        splice, statement = self._splice, self._statement
        write, other = read_write(statement), read_write(self._pair)
        assert write is not None
        name = write.target.id
        creation = self._creation(name)
        mask, mine = splice.code(write.mask), self._whole(statement, write)
        edits = []
        if self._pair is not None and other is not None:
            theirs = self._whole(self._pair, other)
            if self._reads(write.value, name) or self._reads(other.value, name):
                raise DeclinedError(f"`{name}` is read while it is written")
            if isinstance(write.mask, ast.UnaryOp):  # `~mask` was written first
                mask, mine, theirs = splice.code(other.mask), theirs, mine
            edits.append((splice.line_span(self._pair), ""))
        else:
            fill = FILLS.get(self._created_by(creation)) if creation is not None else None
            if fill is None or self._reads(write.value, name):
                fill, creation = name, None
            theirs = fill
        if creation is None:
            self._require_own(name)
        else:
            edits.append((splice.line_span(creation), ""))
        edits.append((splice.span(statement), f"{name} = {self._torch}.where({mask}, {mine}, {theirs})"))
        return splice.replaced(edits)

    # --- what stands around the write --------------------------------------------------------------------------------

    def _creation(self, name: str) -> ast.Assign | None:
        """The statement above that makes the buffer, if nothing reads or writes it in between."""
        for above in reversed(self._block[: self._block.index(self._statement)]):
            if _mentions(above, name):
                known = isinstance(above, ast.Assign) and self._created_by(above) in EMPTY | set(FILLS)
                plain = isinstance(above, ast.Assign) and len(above.targets) == 1
                return above if known and plain and isinstance(above, ast.Assign) else None
        return None

    def _created_by(self, creation: ast.Assign | None) -> str:
        value = creation.value if creation is not None else None
        return called(value, self._splice.origins) if isinstance(value, ast.Call) else ""

    def _require_own(self, name: str) -> None:
        """The name is bound anew, so nobody else may have a hold of what it stood for."""
        first = self._statement
        origins = self._splice.origins
        for node in own_nodes(self._function):
            if isinstance(node, ast.Assign) and any(_is_name(target, name) for target in node.targets):
                value = node.value
                made = isinstance(value, ast.Call) and (
                    called(value, origins) in EMPTY | {*FILLS, "clone", "full_like", "full"}
                    or gives_new_memory(value, origins)
                )
                if not (made or isinstance(value, ast.BinOp)) or len(node.targets) > 1:
                    raise DeclinedError(f"`{name}` may be memory of somebody else's")
        arguments = [one.arg for one in ast.walk(self._function.args) if isinstance(one, ast.arg)]
        if name in arguments:
            raise DeclinedError(f"`{name}` is handed in, and written into on purpose perhaps")
        held = {id(node.value) for node in own_nodes(self._function) if isinstance(node, ast.Subscript)}
        for node in own_nodes(self._function):
            read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            if read and node.lineno < first.lineno and id(node) not in held:  # type: ignore[attr-defined]  # a Name
                raise DeclinedError(f"`{name}` is used before the write, and may have been kept")
        if any(one.lineno <= first.lineno <= (one.end_lineno or 0) for one in own_nodes(self._function)
               if isinstance(one, ast.For | ast.While)):  # fmt: skip
            raise DeclinedError("the write stands in a loop")

    def _reads(self, value: ast.expr, name: str) -> bool:
        return any(_is_name(node, name) for node in ast.walk(value))

    # --- its value, of whole tensors ---------------------------------------------------------------------------------

    def _whole(self, statement: ast.Assign | ast.AugAssign, write: Write) -> str:
        """The value without the mask."""
        splice = self._splice
        mask = ast.dump(write.mask)
        self._check(statement.value, mask)
        first = splice.span(statement.value)[0]
        code = splice.code(statement.value)
        reads = [
            node
            for node in ast.walk(statement.value)
            if isinstance(node, ast.Subscript) and ast.dump(node.slice) == mask
        ]
        for node in sorted(reads, key=lambda one: splice.span(one), reverse=True):
            start, end = splice.span(node)
            inner = splice.closed(node.value) if node is not statement.value else splice.code(node.value)
            code = code[: start - first] + inner + code[end - first :]
        if isinstance(statement, ast.AugAssign):
            operator = OPERATORS.get(type(statement.op))
            if operator is None:
                raise DeclinedError("the operator of the write is not arithmetic")
            plain = isinstance(statement.value, ast.Name | ast.Constant | ast.Call | ast.Subscript | ast.Attribute)
            code = f"{write.target.id} {operator} {code if plain else f'({code})'}"
        return code

    def _check(self, node: ast.expr, mask: str) -> None:
        """Raises: DeclinedError unless each element of the value is made of the elements at its own place."""
        origins = self._splice.origins
        if isinstance(node, ast.Subscript) and ast.dump(node.slice) == mask:
            if not isinstance(node.value, ast.Name | ast.Attribute | ast.Call | ast.BinOp):
                raise DeclinedError("what is read through the mask is read through another index as well")
        elif dotted_names(node) or is_number(node):
            pass  # a number: anything longer would not fit what the mask leaves
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._check(node.operand, mask)
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            smooth = isinstance(node.op, ast.Add | ast.Sub | ast.Mult) or _is_square(node) or is_number(node.right)
            self._require_harmless(smooth)
            self._check(node.left, mask)
            self._check(node.right, mask)
        elif isinstance(node, ast.Call) and called(node, origins) in ELEMENTWISE and is_pure_call(node, origins):
            self._require_harmless(called(node, origins) in SMOOTH)
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            for one in (*receiver, *node.args):
                if not (isinstance(one, ast.Name) and one.id in origins.names):
                    self._check(one, mask)
        else:
            raise DeclinedError("the value is not made element by element")

    def _require_harmless(self, smooth: bool) -> None:
        """Where a graph is recorded, the branch that is not taken sends NaN * 0 back."""
        if not smooth and not self._in_function_class:
            raise DeclinedError("the gradient of a value that the mask leaves out may be NaN")


def _is_square(node: ast.BinOp) -> bool:
    power = integer(node.right)
    return isinstance(node.op, ast.Pow) and power is not None and power >= 1


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _mentions(statement: ast.stmt, name: str) -> bool:
    return any(_is_name(node, name) for node in ast.walk(statement))
