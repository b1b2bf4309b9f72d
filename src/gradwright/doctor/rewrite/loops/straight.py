"""``continue`` becomes branches, what a counter was above a loop is found, and what can't be read is named."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.loops.expressions import made, names_of, negated
from gradwright.doctor.rewrite.source_text import DeclinedError

_TRUE = made(ast.Constant(True))


def straight(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without ``continue``: what it would skip stands under the opposite condition.

    >>> body = ast.parse("for i in x:\\n    if a:\\n        continue\\n    b = 1").body[0].body
    >>> print(ast.unparse(ast.Module(straight(body), [])))
    if a:
        pass
    else:
        b = 1
    """
    return _straight(list(statements))[0]


def _straight(statements: list[ast.stmt]) -> tuple[list[ast.stmt], ast.expr | None]:
    """The statements, and the condition under which they met a ``continue``."""
    for position, statement in enumerate(statements):
        if isinstance(statement, ast.Continue):
            return statements[:position], _TRUE
        if not isinstance(statement, ast.If) or not any(_continues(statement)):
            continue
        then, first = _straight(statement.body)
        other, second = _straight(statement.orelse)
        rest, third = _straight(statements[position + 1 :])
        if first is _TRUE and second is None:
            other = other + rest
        elif second is _TRUE and first is None:
            then = then + rest
        elif not (first is _TRUE and second is _TRUE):
            skipped = _either(_both(statement.test, first), _both(negated(statement.test), second))
            assert skipped is not None
            if names_of(skipped) & _stored([*then, *other]):
                raise DeclinedError("a continue under a condition that the loop changes on the way")
            rest = [ast.copy_location(ast.If(negated(skipped), rest, []), statement)] if rest else []
            branch = _branch(statement, then, other)
            return [*statements[:position], branch, *rest], _either(skipped, third)
        done = [*statements[:position], _branch(statement, then, other)]
        reached = _either(_both(statement.test, first), _both(negated(statement.test), second))
        return done, _either(reached, third)
    return statements, None


def _branch(node: ast.If, then: list[ast.stmt], other: list[ast.stmt]) -> ast.If:
    return ast.copy_location(ast.If(node.test, then or [made(ast.Pass())], other), node)


def _continues(node: ast.stmt) -> Iterator[bool]:
    for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
        for inner in block:
            if isinstance(inner, ast.Continue):
                yield True
            elif isinstance(inner, ast.If):
                yield from _continues(inner)


def _both(test: ast.expr, condition: ast.expr | None) -> ast.expr | None:
    if condition is None or condition is _TRUE:
        return test if condition is _TRUE else None
    return made(ast.BoolOp(ast.And(), [test, condition]))


def _either(one: ast.expr | None, other: ast.expr | None) -> ast.expr | None:
    if one is None or other is None:
        return one or other
    return made(ast.BoolOp(ast.Or(), [one, other]))


def _stored(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that statements may change: bound, or written into."""
    found = set()
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= names_of(node.func.value)
    return found


def value_above(variable: str, statements: Sequence[ast.stmt]) -> ast.expr | None:
    """What ``variable`` was given by a plain assignment above, if that is still so where the statements end."""
    changed: set[str] = set()
    for statement in reversed(statements):
        plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        if plain and isinstance(statement.targets[0], ast.Name) and statement.targets[0].id == variable:  # type: ignore[attr-defined]  # an Assign
            value: ast.expr = statement.value  # type: ignore[attr-defined]  # the same
            arithmetic = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Constant, ast.expr_context)
            simple = all(isinstance(inner, arithmetic) for inner in ast.walk(value))
            return value if simple and not names_of(value) & (changed | {variable}) else None
        changed |= _stored([statement])
        if variable in changed:
            return None
    return None


def obstacle(node: ast.stmt) -> str:
    """What stands in the way, in words."""
    words = {
        ast.Break: "the loop is left in the middle (break)",
        ast.Return: "the loop is left in the middle (return)",
        ast.Raise: "the loop may raise an exception",
        ast.Assert: "the loop may raise an exception (assert)",
        ast.Try: "the loop catches exceptions",
        ast.With: "a with block in the loop",
        ast.Delete: "the loop deletes names",
        ast.FunctionDef: "the loop defines a function",
        ast.ClassDef: "the loop defines a class",
        ast.Import: "the loop imports modules",
        ast.ImportFrom: "the loop imports modules",
        ast.Global: "the loop writes names outside its function",
        ast.Nonlocal: "the loop writes names outside its function",
        ast.Match: "a match statement in the loop",
    }
    first = ast.unparse(node).split("\n", 1)[0]
    return words.get(type(node), f"a statement of a kind that is not read: {first}")
