"""What a Function saves and could compute again: what elementwise operations of its forward make of its inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.kept import function_methods, kept_in_text
from gradwright.ground.syntax import dotted_names

# As long as a pass over memory, whichever of them it is.
_ELEMENTWISE = frozenset({
    "abs", "add", "atan", "clamp", "clip", "cos", "div", "elu", "erf", "exp", "expm1", "gelu", "leaky_relu", "log",
    "log1p", "logsigmoid", "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "relu", "rsqrt", "sigmoid", "sign",
    "silu", "sin", "softplus", "softsign", "sqrt", "square", "sub", "tanh", "where",
})  # fmt: skip
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


@dataclass(frozen=True)
class Recomputed:
    """Saved tensors that can be computed again, by position in ``save_for_backward``: their names, which forward and
    backward share. ``inputs``: what they are computed of; ``statements``: by which assignments, in their order."""

    names: dict[int, str]
    inputs: tuple[str, ...]
    statements: tuple[ast.Assign, ...]


def recomputable(text: str, line: int) -> Recomputed | None:
    """Of the Function around ``line``; None where nothing can be. Looked at are assignments straight in the forward's
    body, of names that it binds once and never changes in place.

    >>> found = recomputable('''class Mish(Function):
    ...     def forward(ctx, x):
    ...         s = F.softplus(x)
    ...         t = torch.tanh(s)
    ...         ctx.save_for_backward(x, s, t)
    ...         return x * t
    ...     def backward(ctx, g):
    ...         x, s, t = ctx.saved_tensors
    ...         return g * (t + x * (1 - t * t) * (1 - torch.exp(-s)))
    ... ''', 1)
    >>> found.names, found.inputs, [ast.unparse(one) for one in found.statements]
    ({1: 's', 2: 't'}, ('x',), ['s = F.softplus(x)', 't = torch.tanh(s)'])
    """
    kept, methods = kept_in_text(text, line), function_methods(text, line)
    if kept is None or "setup_context" in methods or not kept.saved:
        return None
    forward = methods["forward"]
    inputs = [one.arg for one in (*forward.args.posonlyargs, *forward.args.args)][1:]
    steady = _steady(forward, inputs)
    made: dict[str, ast.Assign] = {}
    for statement in forward.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name) or target.id not in steady:
            continue
        if _is_elementwise(statement.value, {*(steady & {*inputs}), *made}):
            made[target.id] = statement
    names = {
        one.position: one.name
        for one in kept.saved
        if one.use == "values" and isinstance(one.node, ast.Name) and one.node.id == one.name and one.name in made
    }
    if not names:
        return None
    needed = _needed({*names.values()}, made)
    return Recomputed(
        names,
        tuple(name for name in inputs if name in needed),
        tuple(statement for name, statement in made.items() if name in needed),
    )


def _steady(forward: ast.FunctionDef, inputs: list[str]) -> set[str]:
    """Inputs that are never bound anew, names that are bound once; none that is changed in place."""
    bound: dict[str, int] = dict.fromkeys(inputs, 1)
    changed: set[str] = set()
    for node in ast.walk(forward):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] = bound.get(node.id, 0) + 1
        changed |= set(_changed(node))
    return {name for name, times in bound.items() if times == 1 and name not in changed}


def _changed(node: ast.AST) -> Iterator[str]:
    """Names whose tensors a node changes, or may: by ``+=``, ``x[0] =``, ``x.add_(y)``, ``out=x``, ``mark_dirty``."""
    found: list[ast.AST] = []
    if isinstance(node, ast.AugAssign):
        found.append(node.target)
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        found.append(node.value)
    elif isinstance(node, ast.Call):
        name = dotted_names(node.func)[-1:] or [getattr(node.func, "attr", "")]
        found += [word.value for word in node.keywords if word.arg in ("out", "inplace")]
        if name[0] == "mark_dirty" or (name[0].endswith("_") and not name[0].endswith("__")):
            found += [node.func, *node.args]
    for one in found:
        yield from (inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name))


def _is_elementwise(node: ast.expr, known: set[str]) -> bool:
    """Of known tensors and constants alone."""
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.BinOp):
        sides = _is_elementwise(node.left, known) and _is_elementwise(node.right, known)
        return sides and isinstance(node.op, _OPERATORS)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.Invert)) and _is_elementwise(node.operand, known)
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and all(_is_elementwise(side, known) for side in (node.left, *node.comparators))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in _ELEMENTWISE:
        return False
    root = dotted_names(node.func.value)[:1]
    is_method = not root or root[0] in known
    given = [node.func.value, *node.args] if is_method else list(node.args)
    plain = all(word.arg and isinstance(word.value, ast.Constant) for word in node.keywords)
    return plain and bool(given) and all(_is_elementwise(one, known) for one in given)


def _needed(names: set[str], made: dict[str, ast.Assign]) -> set[str]:
    needed, front = set(names), list(names)
    while front:
        statement = made.get(front.pop())
        read = () if statement is None else ast.walk(statement.value)
        for node in read:
            if isinstance(node, ast.Name) and node.id not in needed:
                needed.add(node.id)
                front.append(node.id)
    return needed
