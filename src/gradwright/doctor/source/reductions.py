"""Statements that only gather: sums, products, extremes, concatenations, whose order may change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Matches = Callable[[ast.AST], bool]

_GATHERERS = {"max", "min", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "add", "mul", "multiply"}
_GATHERERS |= {"cat", "concat", "concatenate", "stack", "vstack", "hstack", "append", "logical_or", "logical_and"}


_IN_PLACE = {"add_", "sub_", "mul_", "div_", "logical_or_", "logical_and_", "append", "extend"}


def key(node: ast.AST) -> str:
    """``h`` or ``self.h`` for a name or an attribute of one; "" for all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = key(node.value)
        return base and f"{base}.{node.attr}"
    return ""


def place_matcher(target: ast.expr) -> Matches:
    """Whether a node names the same place as ``target``, by its text."""
    text = ast.unparse(target)
    kind = type(target)
    return lambda node: isinstance(node, kind) and ast.unparse(node) == text


def gathers(statement: ast.stmt, matches: Matches) -> bool:
    """Whether a statement only adds to (multiplies, maximizes, extends) the place: its order does not matter.

    >>> [gathers(ast.parse(text).body[0], lambda node: isinstance(node, ast.Name) and node.id == "s")
    ...     for text in ("s += x[i]", "s = s + x[i] - 1", "s = max(s, x[i])", "s = a * s + x[i]", "s = x[i] - s")]
    [True, True, True, False, False]
    """
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        adds = isinstance(call.func, ast.Attribute) and call.func.attr in _IN_PLACE and matches(call.func.value)
        return adds and not any(_reads(part, matches) for part in [*call.args, *call.keywords])
    if isinstance(statement, ast.AugAssign):
        return (
            matches(statement.target) and not isinstance(statement.op, _OPEN) and not _reads(statement.value, matches)
        )
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1 and matches(statement.targets[0])):
        return False
    value = statement.value
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else key(value.func)
        parts = [*_parts(value)]
        own = [part for part in parts if matches(part)]
        return (
            name in _GATHERERS and len(own) == 1 and not any(_reads(part, matches) for part in parts if part not in own)
        )
    for operators in ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitOr,), (ast.BitAnd,)):
        operands = [*_operands(value, operators)]
        signs = [sign for sign, operand in operands if matches(operand)]
        others = [operand for _, operand in operands if not matches(operand)]
        if signs == [1] and not any(_reads(operand, matches) for operand in others):
            return True
    return False


def running_extreme(statement: ast.stmt, matches: Matches) -> bool:
    """``if x[i] > best: best = x[i]``, with whatever else is remembered of that round."""
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.test, ast.Compare):
        return False
    test = statement.test
    sides = [test.left, *test.comparators]
    own = [side for side in sides if matches(side)]
    if len(sides) != 2 or len(own) != 1 or not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return False
    other = next(side for side in sides if not matches(side))
    sets = [
        one for inner in statement.body if isinstance(inner, ast.Assign) for one in _pairs(inner) if matches(one[0])
    ]
    plain = all(
        not _reads(inner.value, matches) for inner in statement.body if isinstance(inner, (ast.Assign, ast.AugAssign))
    )
    return bool(sets) and plain and all(ast.dump(value) == ast.dump(other) for _, value in sets)


def runs_along(statement: ast.stmt, matches: Matches) -> bool:
    """Whether a statement is a step of a running sum or product: what it has made so far may be read in every round.

    >>> [runs_along(ast.parse(text).body[0], lambda node: isinstance(node, ast.Name) and node.id == "s")
    ...     for text in ("s += x[i]", "s = s * x[i]", "s = max(s, x[i])", "s = a * s + x[i]")]
    [True, True, False, False]
    """
    operators = (ast.Add, ast.Sub, ast.Mult)
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, operators) and gathers(statement, matches)
    plain = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp)
    return plain and isinstance(statement.value.op, operators) and gathers(statement, matches)  # type: ignore[attr-defined]  # an assignment


def _pairs(statement: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Targets with what they become; ``best, where = x[i], i`` item by item."""
    pairs = []
    for target in statement.targets:
        both = isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple)
        if both and len(target.elts) == len(statement.value.elts):  # type: ignore[attr-defined]  # both are tuples
            pairs += list(zip(target.elts, statement.value.elts, strict=True))  # type: ignore[attr-defined]  # two tuples, as tested above
        else:
            pairs.append((target, statement.value))
    return pairs


_OPEN = (ast.Pow, ast.Mod, ast.FloorDiv, ast.LShift, ast.RShift, ast.MatMult)


def _operands(
    node: ast.expr, operators: tuple[type[ast.operator], ...], sign: int = 1
) -> Iterator[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operators):
        yield from _operands(node.left, operators, sign)
        yield from _operands(node.right, operators, -sign if isinstance(node.op, (ast.Sub, ast.Div)) else sign)
    else:
        yield sign, node


def _parts(call: ast.Call) -> Iterator[ast.expr]:
    """What a call gets: the object of a method, arguments, elements of a list argument."""
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(argument, (ast.List, ast.Tuple)):
            yield from argument.elts
        else:
            yield argument


def _reads(node: ast.AST, matches: Matches) -> bool:
    return any(matches(inner) for inner in ast.walk(node))
