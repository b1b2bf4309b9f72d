"""The statements of a loop over samples become statements about all of them: see NOTE [Batched by the text]."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradwright.doctor.rewrite.batched_calls import Batcher
from gradwright.doctor.rewrite.batched_values import Value
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.names import events, exposed


@dataclass
class Body:
    """The body of ``loop`` written for all samples, by ``batcher``.

    ``lists``: names of lists of which only ``torch.stack`` is made afterwards, and the name that the tensor gets.
    """

    batcher: Batcher
    loop: ast.For
    lists: Mapping[str, str]
    inner: int = 0
    carried: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        bound = {event.name for event in events(self.loop.body, into_functions=False) if event.kind == "bind"}
        self.carried = frozenset(exposed(self.loop.body) & bound)

    def write(self) -> None:
        """Raises: DeclinedError. A first walk only learns what the names are: a later statement may change one."""
        batcher = self.batcher
        for _ in range(2):
            self.batcher = replace(batcher, splices=batcher.splices.fresh(), names=dict(batcher.names))
            self.block(self.loop.body)
            batcher.names.update(self.batcher.names)
        self.batcher = batcher
        self.block(self.loop.body)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self.assign(statement.targets[0], statement.value)
            elif isinstance(statement, ast.AugAssign):
                self.augmented(statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self.appended(statement, statement.value)
            elif isinstance(statement, ast.For) and not statement.orelse:
                self.inner_loop(statement)
            elif isinstance(statement, ast.If) and not self.batcher.varies(statement.test):
                self.block(statement.body)
                self.block(statement.orelse)
            elif not isinstance(statement, ast.Pass):
                raise DeclinedError(f"line {statement.lineno} can't be done for all samples at once")

    def inner_loop(self, loop: ast.For) -> None:
        if self.batcher.varies(loop.iter) or not isinstance(loop.target, ast.Name):
            raise DeclinedError(f"the loop at line {loop.lineno} differs from sample to sample")
        self.inner += 1
        self.block(loop.body)
        self.inner -= 1

    # --- assignments -------------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.carried:
                self.accumulated(target.id, value)
            else:
                self.bind(target.id, self.batcher.visit(value), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpacked(target, value)
        elif isinstance(target, ast.Subscript):
            self.stored(target, value)
        else:
            raise DeclinedError(f"line {target.lineno} sets an attribute")

    def bind(self, name: str, found: Value, value: ast.expr) -> None:
        if found.kind == "row":
            raise DeclinedError("the loop's variable gets another name")
        if found.kind == "gradients":
            self.batcher.tuples[name] = self.batcher.gradient_of(value)
        if found.kind != "uniform" or name not in self.batcher.names:
            if found.kind != "uniform":
                self.batcher.names[name] = found
        elif self.batcher.names[name].rank:
            raise DeclinedError(f"{name} is a number first and a tensor later")

    def unpacked(self, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        """``(g,) = autograd.grad(...)``"""
        only = target.elts[0]
        if len(target.elts) != 1 or not isinstance(only, ast.Name) or only.id in self.carried:
            raise DeclinedError(f"line {target.lineno} takes something apart")
        if self.batcher.visit(value).kind != "gradients":
            raise DeclinedError(f"line {target.lineno} takes something apart")
        found = self.batcher.gradient_of(value)
        if found.instead:
            start, end = self.batcher.splices.span(target)
            self.batcher.splices.replace_span(start, end, only.id)
        self.batcher.names[only.id] = Value(found.kind, found.rank)

    def stored(self, target: ast.Subscript, value: ast.expr) -> None:
        """``J[j, k] = e``"""
        parts, base = self._indices(target)
        variable, batcher = self.batcher.variable, self.batcher
        places = [at for at, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == variable]
        seen = batcher.seen.live_ins.get(base.id) if isinstance(base, ast.Name) else None
        if seen is None or seen.tensor is None or batcher.varies(base):
            raise DeclinedError(f"line {target.lineno} writes into something else than a tensor of before")
        rest = [part for part in parts if part is not parts[places[0]]] if len(places) == 1 else []
        if len(places) != 1 or not all(batcher.is_integer(part) and not batcher.varies(part) for part in rest):
            raise DeclinedError(f"line {target.lineno} writes elsewhere than at the sample's own place")
        found = batcher.batched(value)
        room = len(seen.tensor.shape) - len(parts)
        if found.kind == "batched" and found.rank != room:
            raise DeclinedError(f"line {target.lineno} spreads a value over the sample's own place")
        text = [batcher.splices.of(part) for part in parts]
        text[places[0]] = batcher.rows
        while len(text) > 1 and text[-1] == ":":
            text.pop()
        start, end = batcher.splices.span(base)[1], batcher.splices.span(target)[1]
        batcher.splices.replace_span(start, end, f"[{', '.join(text)}]")

    def _indices(self, target: ast.expr) -> tuple[list[ast.expr], ast.expr]:
        parts: list[ast.expr] = []
        while isinstance(target, ast.Subscript):
            here = list(target.slice.elts) if isinstance(target.slice, ast.Tuple) else [target.slice]
            parts, target = [*here, *parts], target.value
        return parts, target

    # --- sums over the samples ---------------------------------------------------------------------------------------

    def augmented(self, statement: ast.AugAssign) -> None:
        target, value = statement.target, statement.value
        adds = isinstance(statement.op, (ast.Add, ast.Sub))
        if isinstance(target, ast.Subscript) and adds and not self.batcher.varies(target):
            self.summed(value)
        elif isinstance(target, ast.Subscript):
            self.stored(target, value)
        elif not isinstance(target, ast.Name):
            raise DeclinedError(f"line {statement.lineno} changes an attribute")
        elif target.id in self.carried:
            if not adds or self.batcher.varies(target):
                raise DeclinedError(f"{target.id} depends on the sample before")
            for term in self._terms(value):
                self.summed(term)
        else:
            self._changed(target.id, value)

    def _changed(self, name: str, value: ast.expr) -> None:
        """A sample's own value that is changed: of one rank with what changes it, or a number until then."""
        found, before = self.batcher.batched(value), self.batcher.names.get(name)
        if found.kind == "uniform":
            if before is not None and before.rank != self.batcher.rank(value) and self.batcher.rank(value):
                raise DeclinedError(f"{name} changes its rank")
            return
        if before is not None and before.rank != found.rank:
            raise DeclinedError(f"{name} changes its rank")
        self.batcher.names[name] = found

    def accumulated(self, name: str, value: ast.expr) -> None:
        """``loss = loss + e``: every other term is summed over the samples."""
        terms = self._terms(value)
        own = [term for term in terms if isinstance(term, ast.Name) and term.id == name]
        reads = [node for node in ast.walk(value) if isinstance(node, ast.Name) and node.id == name]
        if len(own) != 1 or len(reads) != 1 or own[0] in self._negative(value):
            raise DeclinedError(f"{name} depends on the sample before")
        for term in terms:
            if term is not own[0]:
                self.summed(term)

    def summed(self, term: ast.expr) -> None:
        if any(isinstance(node, ast.Name) and node.id in self.carried for node in ast.walk(term)):
            raise DeclinedError(f"line {term.lineno} depends on the sample before")
        inner = _summed_whole(term)
        if inner is not None and self.batcher.varies(inner) and self.batcher.batched(inner).kind == "batched":
            return  # the sum of the samples' own sums is the sum of all
        found = self.batcher.batched(term)
        if found.kind != "batched":
            raise DeclinedError(f"line {term.lineno} adds what is the same for every sample")
        self.batcher.splices.append(term, ".sum(0)" if found.rank else ".sum()")

    def _terms(self, value: ast.expr) -> list[ast.expr]:
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)) and self._holds_carried(value):
            return [*self._terms(value.left), *self._terms(value.right)]
        return [value]

    def _holds_carried(self, value: ast.expr) -> bool:
        return any(isinstance(node, ast.Name) and node.id in self.carried for node in ast.walk(value))

    def _negative(self, value: ast.expr) -> list[ast.expr]:
        """What is taken away, anywhere in a sum."""
        return [
            inner
            for node in ast.walk(value)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
            for inner in ast.walk(node.right)
            if isinstance(inner, ast.expr)
        ]

    # --- lists -------------------------------------------------------------------------------------------------------

    def appended(self, statement: ast.Expr, call: ast.Call) -> None:
        function = call.func
        if (
            not isinstance(function, ast.Attribute)
            or function.attr != "append"
            or not isinstance(function.value, ast.Name)
            or len(call.args) != 1
            or self.inner
            or self.batcher.varies(function.value)
        ):
            raise DeclinedError(f"line {statement.lineno} can't be done for all samples at once")
        name, value = function.value.id, call.args[0]
        if self.batcher.batched(value).kind != "batched":
            raise DeclinedError(f"line {statement.lineno} appends what is the same for every sample")
        splices = self.batcher.splices
        if name in self.lists:
            splices.replace_span(splices.span(statement)[0], splices.span(value)[0], f"{self.lists[name]} = ")
            splices.replace_span(splices.span(value)[1], splices.span(statement)[1], "")
        else:
            splices.replace(function, f"{name}.extend")
            splices.append(value, ".unbind()")


def _summed_whole(term: ast.expr) -> ast.expr | None:
    """``e`` of ``e.sum()``."""
    plain = isinstance(term, ast.Call) and not term.args and not term.keywords
    if plain and isinstance(term.func, ast.Attribute) and term.func.attr == "sum":  # type: ignore[attr-defined]  # a call
        return term.func.value  # type: ignore[attr-defined]  # a method call, seen by the caller
    return None
