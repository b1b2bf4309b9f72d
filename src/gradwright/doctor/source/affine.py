"""Indices as affine forms of loop variables, and how far apart two of them are."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Affine:
    """``sum(coefficient * variable) + constant + rest``: ``rest`` names what does not change while the loop runs."""

    coefficients: tuple[tuple[str, int], ...]
    constant: int
    rest: tuple[tuple[str, int], ...] = ()


def affine(node: ast.expr, variables: frozenset[str], changing: frozenset[str]) -> Affine | None:
    """``None`` if the expression is not affine in the loop ``variables``, or reads something else that changes.

    >>> affine(ast.parse("n - 2 * i + 1", mode="eval").body, frozenset("i"), frozenset())
    Affine(coefficients=(('i', -2),), constant=1, rest=(('n', 1),))
    """
    terms = _terms(node, 1, variables, changing)
    if terms is None:
        return None
    own = tuple(sorted((name, factor) for name, factor in terms.items() if name in variables and factor))
    rest = tuple(sorted((name, factor) for name, factor in terms.items() if name not in variables and name and factor))
    return Affine(own, terms.get("", 0), rest)


def _terms(node: ast.expr, factor: int, variables: frozenset[str], changing: frozenset[str]) -> dict[str, int] | None:
    """The factor of each variable and of each unchanging expression; "" stands for one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return {"": factor * node.value}
    if isinstance(node, ast.Name) and node.id in variables:
        return {node.id: factor}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _terms(node.operand, -factor, variables, changing)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left = _terms(node.left, factor, variables, changing)
        right = _terms(node.right, factor if isinstance(node.op, ast.Add) else -factor, variables, changing)
        if left is None or right is None:
            return None
        return {name: left.get(name, 0) + right.get(name, 0) for name in left | right}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for number, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(number, ast.Constant) and type(number.value) is int:
                return _terms(other, factor * number.value, variables, changing)
    if any(isinstance(inner, ast.Name) and inner.id in variables | changing for inner in ast.walk(node)):
        return None
    return {ast.unparse(node): factor}


def index_parts(node: ast.Subscript) -> tuple[ast.expr, tuple[ast.expr, ...]]:
    """What is indexed, and all its indices: ``D[i][j]`` and ``D[i, j]`` are the same."""
    indices: tuple[ast.expr, ...] = ()
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        inner = tuple(base.slice.elts) if isinstance(base.slice, ast.Tuple) else (base.slice,)
        base, indices = base.value, inner + indices
    return base, indices


def needs_earlier(
    written: Sequence[ast.expr],
    read: Sequence[ast.expr],
    directions: Mapping[str, int],
    changing: frozenset[str],
) -> bool:
    """Whether an element read in one round was written in an earlier one.

    ``directions``: the variables of the loops around both, outermost first, with 1 (they rise), -1 (they fall) or 0
    (not known). ``changing``: whatever else changes while the loops run. Indices that are left out mean whole rows.
    False where the two never meet, meet within one round only, or the element is written later.

    >>> d, e = (ast.parse(text, mode="eval").body.slice for text in ("x[i]", "x[i - 1]"))
    >>> needs_earlier([d], [e], {"i": 1}, frozenset()), needs_earlier([d], [e], {"i": -1}, frozenset())
    (True, False)
    """
    names = frozenset(directions)
    apart = _Apart()
    for number in range(max(len(written), len(read))):
        one = written[number] if number < len(written) else _ALL
        other = read[number] if number < len(read) else _ALL
        if not _compare(one, other, names, changing, apart):
            return False
    if apart.anything:
        return True
    for name, direction in directions.items():
        if name in apart.free or (name not in apart.used and any(apart.rounds.values())):
            return True
        step = apart.rounds.get(name, 0)
        if step:
            return direction == 0 or step * direction > 0
    return False


_ALL = ast.Slice()


@dataclass
class _Apart:
    """``rounds``: how many rounds before the read the element is written, by variable; ``free``: any number of them."""

    rounds: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    anything: bool = False


def _compare(one: ast.expr, other: ast.expr, names: frozenset[str], changing: frozenset[str], apart: _Apart) -> bool:
    """Take one dimension into account; False if the two can't meet in it."""
    moving = _moving(one, names | changing), _moving(other, names | changing)
    if isinstance(one, ast.Slice) or isinstance(other, ast.Slice):
        if ast.dump(one) == ast.dump(other):
            apart.used |= moving[0] & names
        else:
            apart.free |= (moving[0] | moving[1]) & names  # stretches may overlap by any number of rounds
        return True
    first, second = affine(one, names, changing), affine(other, names, changing)
    if first is None or second is None:
        if ast.dump(one) == ast.dump(other):
            apart.used |= names  # the same entry of a table: the same element, as far as the text says
        elif (moving[0] | moving[1]) & names or not (moving[0] and moving[1]):
            apart.anything = True  # an index out of a table: any element may be meant
        return True
    if first.coefficients != second.coefficients or first.rest != second.rest:
        apart.anything = True
        return True
    difference = first.constant - second.constant
    if not first.coefficients:
        return difference == 0
    apart.used |= {name for name, _ in first.coefficients}
    if len(first.coefficients) > 1:
        apart.anything = apart.anything or difference != 0
        return True
    name, factor = first.coefficients[0]
    return difference % factor == 0 and apart.rounds.setdefault(name, difference // factor) == difference // factor


def _moving(node: ast.expr, names: frozenset[str]) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & names
