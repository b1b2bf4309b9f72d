"""Statements of a Python function as values: assignments, ``if`` and ``return``.

NOTE [Branches become choices]: both ways of an ``if`` are read, and a name that they leave with two values gets
``where(condition, one, other)``. What a block returns is kept beside the condition under which it returns nothing and
goes on (``falls``); what follows is the choice there. So every statement is read once, however many ways lead to it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gradwright.errors import UsageError
from gradwright.kernels.formula.values import Value, both, chosen, either, negated
from gradwright.kernels.formula.walk import Part, Steps, Walk
from gradwright.kernels.formula.written import Written


@dataclass(frozen=True)
class Missing:
    """What a name stands for that only one way of an ``if`` assigns."""

    line: int


class Outcome(NamedTuple):
    """What a block returns (None: nothing anywhere) where it does not fall through to what stands behind it."""

    returned: Value | None
    falls: Value


_FALLS: Final = Outcome(None, True)

_STATEMENTS: Final[Mapping[type[ast.stmt], tuple[str, str]]] = {
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), ("a loop", "write its steps out")),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), ("a function", "define it outside, and call it")),
    **dict.fromkeys((ast.Import, ast.ImportFrom), ("an import", "import it outside")),
    **dict.fromkeys((ast.Global, ast.Nonlocal), ("a name of outside", "assign names of the function's own only")),
    ast.Raise: ("an exception", "return nan where there is no value"),
    ast.Assert: ("an assertion", "check the inputs before, or return nan where there is no value"),
    ast.Expr: ("a statement without effect", "assign its value to a name, or return it"),
}


class StatementWalk(Walk):
    """The walk over a function's body. ``local`` holds the names assigned so far."""

    def __init__(self, written: Written, steps: Steps, local: dict[str, Value | Missing]) -> None:
        super().__init__(written, steps)
        self.local = local

    def result(self, body: Sequence[ast.stmt]) -> Part:
        """What the function returns."""
        outcome = yield self.block(body)
        if outcome.falls is not False or outcome.returned is None:
            raise self.refusal(
                body[-1],
                "it does not return on every way",
                why="where it returns nothing there is no number",
                do="end it with a return",
            )
        return outcome.returned

    def block(self, body: Sequence[ast.stmt]) -> Part:
        for place, statement in enumerate(body):
            self.count(statement)
            if isinstance(statement, ast.Return):
                if statement.value is None:
                    why = "where it returns nothing there is no number"
                    raise self.refusal(statement, "it returns nothing", why=why, do="return a number")
                return Outcome((yield self.value(statement.value)), False)
            if isinstance(statement, ast.If):
                outcome = yield self._if(statement)
                if outcome.falls is True and outcome.returned is None:
                    continue
                if outcome.falls is False:
                    return outcome
                rest = yield self.block(body[place + 1 :])
                return _followed(outcome, rest)
            yield self._simple(statement)
        return _FALLS

    def _if(self, statement: ast.If) -> Part:
        condition = yield self.condition(statement.test)
        if isinstance(condition, bool):
            return (yield self.block(statement.body if condition else statement.orelse))
        before = self.local
        self.local = dict(before)
        then = yield self.block(statement.body)
        after_then, self.local = self.local, dict(before)
        other = yield self.block(statement.orelse)
        if other.falls is False:
            self.local = after_then
        elif then.falls is not False:
            self.local = _merged(condition, after_then, self.local, statement.lineno)
        return _forked(condition, then, other)

    def _simple(self, statement: ast.stmt) -> Part:
        if isinstance(statement, ast.Assign):
            yield self._assign(statement)
        elif isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                self.local[self._target(statement.target)] = yield self.value(statement.value)
        elif isinstance(statement, ast.AugAssign):
            # x += 1 is x = x + 1 of numbers
            name = self._target(statement.target)
            changed = ast.BinOp(
                ast.copy_location(ast.Name(name, ast.Load()), statement.target), statement.op, statement.value
            )
            self.local[name] = yield self.value(ast.copy_location(changed, statement))
        elif not (isinstance(statement, ast.Pass) or _is_docstring(statement)):
            raise self._no_statement(statement)

    def _assign(self, statement: ast.Assign) -> Part:
        values: dict[str, Value] = {}
        for target in statement.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                parts = statement.value.elts if isinstance(statement.value, (ast.Tuple, ast.List)) else []
                if len(parts) != len(target.elts):
                    what = "a tuple is assigned that does not stand there"
                    why = "a formula is of single numbers"
                    raise self.refusal(
                        statement, what, why=why, do="write as many values as there are names: a, b = x, y"
                    )
                for name, part in zip(target.elts, parts, strict=True):
                    values[self._target(name)] = yield self.value(part)
            else:
                values[self._target(target)] = yield self.value(statement.value)
        self.local.update(values)

    def _target(self, target: ast.expr) -> str:
        if not isinstance(target, ast.Name):
            why = "a formula keeps numbers under plain names"
            raise self.refusal(target, "this can't be assigned to", why=why, do="assign it to a name")
        return target.id

    def _no_statement(self, statement: ast.stmt) -> UsageError:
        thing, do = _STATEMENTS.get(type(statement), ("this statement", "write it with assignments, if and return"))
        why = "a formula consists of assignments, if and return"
        return self.refusal(statement, f"{thing} is no part of a formula", why=why, do=do)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _merged(
    condition: Value, one: Mapping[str, Value | Missing], other: Mapping[str, Value | Missing], line: int
) -> dict[str, Value | Missing]:
    """What names stand for behind an ``if``."""
    merged: dict[str, Value | Missing] = {}
    for name in {**one, **other}:
        a, b = one.get(name, Missing(line)), other.get(name, Missing(line))
        if a is b or isinstance(a, Missing):
            merged[name] = a
        else:
            merged[name] = b if isinstance(b, Missing) else chosen(condition, a, b)
    return merged


def _forked(condition: Value, then: Outcome, other: Outcome) -> Outcome:
    falls = either(both(condition, then.falls), both(negated(condition), other.falls))
    if other.falls is True:
        falls = either(negated(condition), then.falls)
    elif then.falls is True:
        falls = either(condition, other.falls)
    if then.returned is None or other.returned is None:
        return Outcome(other.returned if then.returned is None else then.returned, falls)
    return Outcome(chosen(condition, then.returned, other.returned), falls)


def _followed(first: Outcome, rest: Outcome) -> Outcome:
    """``rest`` is what happens where ``first`` falls."""
    if first.returned is None or rest.returned is None:
        return Outcome(rest.returned if first.returned is None else first.returned, both(first.falls, rest.falls))
    return Outcome(chosen(first.falls, rest.returned, first.returned), both(first.falls, rest.falls))
