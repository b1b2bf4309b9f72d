"""Whether a loop or a comprehension walks over elements or rows, as far as the text shows it."""

from __future__ import annotations

import ast

from gradwright.doctor.source.names import events

Loop = ast.For | ast.While
Listed = ast.ListComp | ast.GeneratorExp
# The kinds of statements that may be sites: loops, and those in which a comprehension may stand.
SITES = (ast.For, ast.While, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)

# Methods whose result is walked row by row; other calls may be anything (a loader, a file, a range).
_ROWS = {
    "unbind", "chunk", "unfold", "flatten", "ravel", "reshape", "view", "t", "transpose", "permute", "numpy", "tolist",
}  # fmt: skip
_WRAPPERS = {"zip", "enumerate", "reversed"}


def walks(loop: Loop, nodes: list[ast.AST]) -> bool:
    """Whether a loop's own variable helps to index something in its body, or it runs over what may be a tensor.

    Or it gathers what it computes with the numbers of a range: powers, or what is equal to each.
    """
    if isinstance(loop, ast.For):
        variables = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if _may_be_tensor(loop.iter):
            return True
    else:
        variables = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
    if not variables:
        return False
    variables |= _derived(nodes, variables)
    if isinstance(loop, ast.For) and _is_range(loop.iter) and _gathers(nodes) and _computes_with(nodes, variables):
        return True
    return any(
        isinstance(node, ast.Subscript)
        and any(isinstance(inner, ast.Name) and inner.id in variables for inner in ast.walk(node.slice))
        for node in nodes
    )


def comprehension_of(statement: ast.stmt) -> Listed | None:
    """The first comprehension of an assignment or ``return`` that computes with elements or rows, if one does."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)) or statement.value is None:
        return None
    for node in ast.walk(statement.value):
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and _computes(node):
            return node
    return None


def _computes(node: Listed) -> bool:
    inside = list(ast.walk(node.elt))
    if not any(isinstance(inner, (ast.BinOp, ast.Call, ast.Subscript)) for inner in inside):
        return False
    variables = {one.id for part in node.generators for one in ast.walk(part.target) if isinstance(one, ast.Name)}
    indexed = any(
        isinstance(inner, ast.Subscript)
        and any(isinstance(one, ast.Name) and one.id in variables for one in ast.walk(inner.slice))
        for inner in inside
    )
    return indexed or _may_be_tensor(node.generators[0].iter)


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _gathers(nodes: list[ast.AST]) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
        for node in nodes
    )


def _computes_with(nodes: list[ast.AST], variables: set[str]) -> bool:
    """Whether a round's number is an exponent or a base (``x ** d``), or what something is compared with to get a mask
    (``labels == c``); a comparison that an ``if`` tests says nothing of tensors."""
    tests = {
        id(inner) for node in nodes if isinstance(node, (ast.If, ast.IfExp, ast.While)) for inner in ast.walk(node.test)
    }
    for node in nodes:
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and id(node) not in tests:
            sides = [node.left, node.comparators[0]]
            if any(isinstance(side, ast.Constant) for side in sides):
                continue
        if any(isinstance(side, ast.Name) and side.id in variables for side in sides):
            return True
    return False


def _derived(nodes: list[ast.AST], variables: set[str]) -> set[str]:
    """Names that are computed from ``variables`` by integer arithmetic: ``k = self.step * i``, ``a, b = i, i + 1``."""
    derived: set[str] = set()
    assigned = [
        (name.id, value)
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1
        for name, value in _pairs(node.targets[0], node.value)
        if isinstance(name, ast.Name) and isinstance(value, (ast.BinOp, ast.Name))
    ]
    arithmetic = (ast.BinOp, ast.operator, ast.Name, ast.Attribute, ast.Constant, ast.expr_context)
    for name, value in assigned:
        inside = list(ast.walk(value))
        names = {node.id for node in inside if isinstance(node, ast.Name)}
        if names & (variables | derived) and all(isinstance(node, arithmetic) for node in inside):
            derived.add(name)
    return derived


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def _may_be_tensor(node: ast.expr) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _WRAPPERS and any(_may_be_tensor(argument) for argument in node.args)
    return isinstance(node.func, ast.Attribute) and node.func.attr in _ROWS
