"""Loops whose rounds the text lists one by one: both halves of a discriminator's loss, domains, heads.

``for data, label in ((real, 1.0), (fake.detach(), 0.0))``: each round has its own objective, and a sum of them is
meant. A list of numbers (sizes) names no objectives.
"""

from __future__ import annotations

import ast

from gradwright.doctor.observe.errors.spots import own_nodes, parsed, scope_at
from gradwright.doctor.observe.training.root_text import file_of
from gradwright.doctor.session.place import Location

_PASSED = frozenset({"enumerate", "reversed", "zip"})
_NUMBERS = (int, float)


def is_over_objectives(backward: Location) -> bool:
    """Whether the innermost ``for`` around a backward goes over what a display in the text lists."""
    tree = parsed(file_of(backward))
    if tree is None:
        return False
    scope = scope_at(tree, backward.line)
    around = [node for node in own_nodes(scope) if isinstance(node, ast.For) and _holds(node, backward.line)]
    if not around:
        return False
    return _lists(max(around, key=lambda node: node.lineno).iter, [tree, scope])


def _holds(loop: ast.For, line: int) -> bool:
    return loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0)


def _lists(node: ast.expr, scopes: list[ast.AST]) -> bool:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):  # domains.items()
            return node.func.attr in ("items", "values", "keys") and _lists(node.func.value, scopes)
        return (
            isinstance(node.func, ast.Name)
            and node.func.id in _PASSED
            and any(_lists(argument, scopes) for argument in node.args)
        )
    if isinstance(node, ast.Name):
        made = [one for scope in scopes for one in own_nodes(scope) if _binds(one, node.id)]
        values = {id(one.value): one.value for one in made if isinstance(one, ast.Assign)}
        return len(values) == len({id(one) for one in made}) == 1 and _lists(next(iter(values.values())), [])
    if isinstance(node, ast.Dict):
        return len(node.values) > 1
    if not isinstance(node, ast.Tuple | ast.List) or len(node.elts) < 2:
        return False
    return not any(isinstance(one, ast.Starred) or _is_number(one) for one in node.elts)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, _NUMBERS)


def _binds(node: ast.AST, name: str) -> bool:
    """Assignments of the name; anything else that stores it is told as itself."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For) and any(
        isinstance(one, ast.Name) and one.id == name for one in ast.walk(node.target)
    )
