"""A nest of ``for ... in range(...)`` loops, taken apart: its variables, its bounds, the statements of its body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText, walk


@dataclass(frozen=True)
class Store:
    """``target = value`` or ``target += value`` (then ``operator`` is its node)."""

    target: cst.BaseExpression
    value: cst.BaseExpression
    operator: cst.BaseAugOp | None = None


@dataclass(frozen=True)
class Branch:
    """``if test: then else: other``, each one store or another branch to the same target."""

    test: cst.BaseExpression
    then: Store | Branch
    other: Store | Branch | None


@dataclass(frozen=True)
class Step:
    """One statement of the body (None: only comments), with the comment lines above it and the one behind it."""

    what: Store | Branch | None
    above: tuple[str, ...] = ()
    behind: str = ""


@dataclass(frozen=True)
class LoopNest:
    """``variables`` and ``ends`` outermost first; ``steps`` in order, those of outer loops before the inner loop."""

    loop: cst.For
    variables: tuple[str, ...]
    ends: tuple[cst.BaseExpression, ...]
    steps: tuple[Step, ...]


def stores_of(what: Store | Branch | None) -> list[Store]:
    """All assignments of a statement."""
    if what is None:
        return []
    if isinstance(what, Store):
        return [what]
    return stores_of(what.then) + stores_of(what.other)


def loops_around(source: SourceText, function: cst.FunctionDef, line: int) -> Iterator[cst.For]:
    """The loops of the function that span a line, outermost first."""
    for node in walk(function.body):
        if isinstance(node, cst.For) and source.first_line(node) <= line <= source.last_line(node):
            yield node


def read_nest(loop: cst.For) -> LoopNest:
    """Raises: DeclinedError, if the loop is not a plain nest of ranges over assignments."""
    variables: list[str] = []
    ends: list[cst.BaseExpression] = []
    steps: list[Step] = []
    inner: cst.For | None = loop
    while inner is not None:
        if inner.orelse is not None or inner.asynchronous is not None:
            raise DeclinedError("a loop with else, or an asynchronous one")
        if not isinstance(inner.target, cst.Name) or inner.target.value in variables:
            raise DeclinedError("the loop's target is not one name of its own")
        variables.append(inner.target.value)
        ends.append(_range_end(inner.iter))
        inner = _read_body(inner.body, steps)
    if all(step.what is None for step in steps):
        raise DeclinedError("nothing is assigned")
    return LoopNest(loop, tuple(variables), tuple(ends), tuple(steps))


def _range_end(iterable: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(iterable, cst.Call) or not isinstance(iterable.func, cst.Name) or iterable.func.value != "range":
        raise DeclinedError("not a loop over a range")
    if any(argument.star or argument.keyword for argument in iterable.args):
        raise DeclinedError("a range with unusual arguments")
    arguments = [argument.value for argument in iterable.args]
    match arguments:
        case [end]:
            return end
        case [cst.Integer(value="0"), end] | [cst.Integer(value="0"), end, cst.Integer(value="1")]:
            return end
    raise DeclinedError("a range that does not start at 0, or has a step")


def _read_body(body: cst.BaseSuite, steps: list[Step]) -> cst.For | None:
    """Adds the body's statements to ``steps``; the inner loop, which must come last, is returned."""
    statements: Sequence[cst.BaseStatement | cst.BaseSmallStatement] = body.body
    if isinstance(body, cst.IndentedBlock) and body.header.comment:
        steps.append(Step(None, (body.header.comment.value,)))
    for position, statement in enumerate(statements):
        if isinstance(statement, cst.For):
            if position != len(statements) - 1:
                raise DeclinedError("statements after the inner loop")
            steps.append(Step(None, _comments(statement.leading_lines)))
            return statement
        if isinstance(statement, cst.If):
            steps.append(Step(_branch(statement), _comments(statement.leading_lines)))
        elif isinstance(statement, cst.SimpleStatementLine):
            behind = statement.trailing_whitespace.comment
            above = _comments(statement.leading_lines)
            for small in statement.body:
                steps.append(Step(_store(small), above, behind.value if behind else ""))
                above, behind = (), None
        elif isinstance(statement, cst.BaseSmallStatement):
            steps.append(Step(_store(statement)))
        else:
            raise DeclinedError(f"{type(statement).__name__} in the loop")
    return None


def _comments(lines: Sequence[cst.EmptyLine]) -> tuple[str, ...]:
    return tuple(line.comment.value for line in lines if line.comment)


def _store(statement: cst.BaseSmallStatement) -> Store:
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        return Store(statement.targets[0].target, statement.value)
    if isinstance(statement, cst.AugAssign):
        return Store(statement.target, statement.value, statement.operator)
    raise DeclinedError(f"{type(statement).__name__} in the loop")


def _branch(statement: cst.If) -> Branch:
    other: Store | Branch | None = None
    parts = (statement.body, *([statement.orelse] if statement.orelse else []))
    if any(isinstance(node, cst.Comment) for part in parts for node in walk(part)):
        raise DeclinedError("comments inside a branch would be lost")
    if isinstance(statement.orelse, cst.If):
        other = _branch(statement.orelse)
    elif isinstance(statement.orelse, cst.Else):
        other = _only(statement.orelse.body)
    return Branch(statement.test, _only(statement.body), other)


def _only(body: cst.BaseSuite) -> Store | Branch:
    """The one statement of a branch."""
    statements: list[cst.BaseStatement | cst.BaseSmallStatement] = []
    for statement in body.body:
        statements += statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    if len(statements) != 1:
        raise DeclinedError("a branch of several statements")
    (statement,) = statements
    if isinstance(statement, cst.If):
        return _branch(statement)
    if isinstance(statement, cst.BaseSmallStatement):
        return _store(statement)
    raise DeclinedError(f"{type(statement).__name__} in a branch")
