"""What the text says of the tensor that a backward starts from: the statement that its name was last bound in."""

from __future__ import annotations

import ast
from pathlib import Path

from gradwright.doctor.observe.errors.spots import Scope, node_at, own_nodes, parsed, place_of, scope_at, text_of
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import home

_FLAGS = frozenset({"requires_grad", "requires_grad_"})


def file_of(location: Location) -> str:
    """The file behind a place, as Python opens it."""
    return location.path if location.path.startswith("<") else str(Path(home()) / location.path)


def expression_at(location: Location, longest: int = 500) -> str:
    """The text of the expression that stands there; "" if it can't be told."""
    file = file_of(location)
    tree = parsed(file)
    return text_of(node_at(tree, file, location), longest) if tree is not None else ""


def made_root(call: Location) -> tuple[Location | None, str]:
    """Where the tensor that ``loss.backward()`` (or ``backward(loss)``) differentiates was made, and by what text.

    The last statement above the call that binds its name, or sets its ``requires_grad``; in a loop that may be the one
    before only by the order of lines.
    """
    file = file_of(call)
    tree = parsed(file)
    node = node_at(tree, file, call) if tree is not None else None
    if tree is None or not isinstance(node, ast.Call):
        return None, ""
    root = _root(node)
    if isinstance(root, ast.Name):
        root = _bound(scope_at(tree, call.line), root.id, call.line) or root
    if root is None or isinstance(root, ast.Name):
        return None, ""
    return place_of(root, file, call.path), text_of(root, longest=80)


def _root(call: ast.Call) -> ast.expr | None:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "backward":
        owner = func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "scale":
            return owner.args[0] if owner.args else None
        if not call.args or not isinstance(call.args[0], ast.Name):
            return owner
    return call.args[0] if call.args else None


def _bound(scope: Scope, name: str, line: int) -> ast.expr | None:
    found: ast.expr | None = None
    for node in own_nodes(scope):
        if getattr(node, "lineno", line) >= line:
            continue
        value = _value_for(node, name)
        if value is not None and (found is None or value.lineno >= found.lineno):
            found = value
    return found


def _value_for(node: ast.AST, name: str) -> ast.expr | None:
    """What the statement makes of the name: its new value, or the setting of its flag."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                return node.value
            if isinstance(target, ast.Attribute) and target.attr in _FLAGS and text_of(target.value) == name:
                return target
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)) and isinstance(node.target, ast.Name):
        return node.value if node.target.id == name else None
    if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call) and isinstance(call.func, ast.Attribute):
        return call if call.func.attr in _FLAGS and text_of(call.func.value) == name else None
    return None
