"""Whether a ``torch.where`` takes what an operation gives, around it or in a later statement."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.finite.place import Place
from gradwright.doctor.source.expressions.suspect import ELEMENTWISE, called, is_pure_call, is_torch_function
from gradwright.ground.syntax import position


@dataclass(frozen=True)
class Branch:
    """``condition`` is true where it is taken, or (``other``) where it is not. ``where``: the call around it, if it is
    around it."""

    condition: str
    other: bool
    where: ast.Call | None = None

    def choice(self, place: Place, taken: str, left: str) -> str:
        """``taken`` where the result is used, ``left`` where it is not."""
        both = (left, taken) if self.other else (taken, left)
        return f"{place.torch}.where({self.condition}, {', '.join(both)})"


def branch_of(place: Place) -> Branch | None:
    inner, above = _up(place, place.expression)
    found = _taken_by(place, above, inner)
    if found is not None:
        return found
    if not isinstance(above, ast.Assign) or len(above.targets) != 1 or not isinstance(above.targets[0], ast.Name):
        return None
    return _by_name(place, above.targets[0].id)


def _by_name(place: Place, name: str) -> Branch | None:
    """All uses of the name are in branches of one condition, of which nothing is bound in between."""
    branches: list[Branch] = []
    for use in place.uses(name):
        inner, above = _up(place, use)
        found = _taken_by(place, above, inner)
        if found is None or found.where is None or position(use) < position(place.statement):
            return None
        for one in ast.walk(found.where.args[0]) if found.where.args else ():
            if isinstance(one, ast.Name) and (one.id == name or _bound_later(place, one.id)):
                return None
        branches.append(Branch(found.condition, found.other))
    return branches[0] if branches and all(one == branches[0] for one in branches) else None


def _bound_later(place: Place, name: str) -> bool:
    scope: ast.AST = place.function or place.splice.tree
    stores = (one for one in ast.walk(scope) if isinstance(one, ast.Name) and one.id == name)
    return any(isinstance(one.ctx, ast.Store) and one.lineno >= place.statement.lineno for one in stores)


def _up(place: Place, node: ast.expr) -> tuple[ast.expr, ast.AST]:
    """The largest expression around it that is computed of each entry alone, and what it stands in."""
    inner, above = node, place.parent(node)
    while isinstance(above, ast.expr) and _taken_by(place, above, inner) is None:
        arithmetic = isinstance(above, ast.BinOp) and not isinstance(above.op, ast.MatMult)
        name = called(above, place.splice.origins) if isinstance(above, ast.Call) else ""
        pure = isinstance(above, ast.Call) and name in ELEMENTWISE and is_pure_call(above, place.splice.origins)
        if not (arithmetic or pure or isinstance(above, ast.UnaryOp | ast.Attribute)):
            break
        inner, above = above, place.parent(above)
    return inner, above


def _taken_by(place: Place, call: ast.AST, inner: ast.expr) -> Branch | None:
    """Of ``torch.where(c, inner, other)``, ``inner.where(c, other)`` and ``inner.masked_fill(c, number)``."""
    if isinstance(call, ast.Attribute) and call.attr in ("where", "masked_fill"):
        outer = place.parent(call)
        if not isinstance(outer, ast.Call) or outer.func is not call or len(outer.args) != 2 or outer.keywords:
            return None
        return Branch(place.code(outer.args[0]), call.attr == "masked_fill", outer)
    if not isinstance(call, ast.Call) or called(call, place.splice.origins) != "where":
        return None
    if not is_torch_function(call, place.splice.origins) or len(call.args) != 3 or call.keywords:
        return None
    if inner not in call.args[1:]:
        return None
    return Branch(place.code(call.args[0]), inner is call.args[2], call)
