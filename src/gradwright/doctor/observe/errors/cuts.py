"""Where a graph was cut, as far as the text shows: `.item()`, `.detach()`, `torch.tensor(...)`, `no_grad` ..."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator
from types import FunctionType

import torch
from torch import Tensor

from gradwright.doctor.observe.errors.scene import Clues, Scene
from gradwright.doctor.observe.errors.spots import Scope, Spot, assignments, own_nodes, scope_at, shape_of, text_of

_METHODS = frozenset(
    {
        "item",
        "detach",
        "detach_",
        "tolist",
        "numpy",
        "argmax",
        "argsort",
        "bool",
        "long",
        "int",
        "sample",
        "multinomial",
    }
)
_MAKERS = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "argmax"})
_BUILTINS = frozenset({"float", "int", "bool"})
_OFF = frozenset({"no_grad", "inference_mode"})
_MOST = 6


def find_cuts(scene: Scene, clues: Clues, index: int) -> None:
    """Follow the differentiated tensor's name back through the user's function, and one call further, in the text."""
    spot = scene.gradient_call or scene.spot
    if spot is None or spot.scope is None or spot.tree is None:
        return
    _modules(spot, clues)
    for text, node in _off_around(spot.tree, spot.scope, spot.location.line):
        clues.add("off", f"{spot.at(node)}: `{text}`")
    start = scene.output_node(index)
    if start is not None:
        for marker, node in _cuts_behind(spot, start):
            clues.add("cut", f"{spot.at(node)}: {marker} in `{text_of(node)}`")
    switches = [node for node in own_nodes(spot.scope) if isinstance(node, ast.Expr) and _is_switch(node.value)]
    before = [node.value for node in switches if node.lineno < spot.location.line]
    if before and _is_off(before[-1]):
        clues.add("off", f"{spot.at(before[-1])}: `{text_of(before[-1])}`")


def _cuts_behind(spot: Spot, start: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Cuts in the expression, in what its names were assigned, and in the user's own functions that it calls."""
    assert spot.scope is not None and spot.tree is not None
    waiting: list[tuple[ast.AST, Scope]] = [(start, spot.scope)]
    seen: set[tuple[int, str]] = set()
    found = 0
    while waiting and len(seen) < 60 and found < _MOST:
        expression, scope = waiting.pop(0)
        for marker, node in _markers(expression):
            if _may_be_tracked(spot, scope, node, set()):
                found += 1
                yield marker, node
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and (body := body_of(spot, node)) is not None:
                key = (id(body), "")
                if key in seen:
                    continue
                seen.add(key)
                for decorator in body.decorator_list:
                    if _is_off(decorator):
                        found += 1
                        yield f"@{text_of(decorator)}", decorator
                for inner in own_nodes(body):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        waiting.append((inner.value, body))
            name = text_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            if name and (id(scope), name) not in seen:
                seen.add((id(scope), name))
                for statement, value, where in _made(spot.tree, scope, node):
                    waiting.append((value, where))
                    if not _may_be_tracked(spot, where, value, set()):
                        continue
                    for text, block in _off_around(spot.tree, where, statement.lineno):
                        found += 1
                        yield f"`{text}` around it", block


def _made(tree: ast.Module, scope: Scope, node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr, Scope]]:
    """What a name was bound to, or had appended to it, in its scope; what ``self.loss`` was, in any method."""
    if isinstance(node, ast.Name):
        yield from ((statement, value, scope) for statement, value in assignments(scope, node.id))
        for call in own_nodes(scope):
            if isinstance(call, ast.Call) and call.args and text_of(call.func) == f"{node.id}.append":
                yield call, call.args[0], scope
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        for statement in ast.walk(_class_around(tree, scope)):
            if isinstance(statement, ast.Assign) and any(text_of(t) == text_of(node) for t in statement.targets):
                yield statement, statement.value, scope_at(tree, statement.lineno)


def _class_around(tree: ast.Module, scope: Scope) -> ast.AST:
    """The class that a method stands in; the scope itself where it is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and scope in node.body:
            return node
    return scope


def _markers(expression: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                owner = text_of(node.func.value)
                if owner in ("torch", "np", "numpy") and node.func.attr in _MAKERS:
                    yield f"`{owner}.{node.func.attr}(...)` makes a new tensor", node
                elif node.func.attr in _METHODS and owner != "torch":
                    yield f"`.{node.func.attr}()`", node
            elif isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
                yield f"`{node.func.id}(...)`", node
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            yield "`.data`", node
        elif isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            yield "a comparison", node


def _may_be_tracked(spot: Spot, scope: Scope, expression: ast.AST, seen: set[str]) -> bool:
    """Could this expression's value have had a graph? Not if all that it is made of is known to have none.

    A comparison that makes the targets cuts nothing; the same comparison of a prediction does.
    """
    for node in ast.walk(expression):
        if isinstance(node, ast.keyword) and node.arg == "requires_grad":
            return True
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        value = spot.value(node) if scope is spot.scope else _global(spot, scope, node)
        if _carries_graph(value):
            return True
        if isinstance(node, ast.Name) and scope is not spot.scope and node.id in _parameters(scope):
            return True  # what another function is given is not known
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            made_of = [value for _, value in assignments(scope, node.id)]
            if any(_may_be_tracked(spot, scope, part, seen) for part in made_of):
                return True
            if value is None and not made_of and node.id not in spot.frame.f_globals and not hasattr(builtins, node.id):
                return True  # a comprehension's variable: not known
    return False


def _global(spot: Spot, scope: Scope, node: ast.AST) -> object:
    """What a name of another function of the file stands for, if it is no local one of that function's."""
    if not isinstance(node, ast.Name) or node.id in _parameters(scope) or any(assignments(scope, node.id)):
        return None
    return spot.frame.f_globals.get(node.id)


def _parameters(scope: Scope) -> set[str]:
    return (
        set()
        if isinstance(scope, ast.Module)
        else {argument.arg for argument in ast.walk(scope.args) if isinstance(argument, ast.arg)}
    )


def _carries_graph(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.requires_grad
    if isinstance(value, torch.nn.Module):
        return any(parameter.requires_grad for parameter in torch.nn.Module.parameters(value))
    if type(value) in (list, tuple):
        return any(isinstance(item, Tensor) and item.requires_grad for item in value[:100])  # type: ignore[index]  # a list or tuple
    return isinstance(value, FunctionType) and not value.__module__.startswith("torch")


def _is_switch(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and text_of(node.func).endswith("set_grad_enabled")


def body_of(spot: Spot, call: ast.Call) -> ast.FunctionDef | None:
    """The user's own function behind a call, if it stands in this file: a function, or the forward of a module."""
    assert spot.tree is not None
    called = spot.value(call.func)
    if isinstance(called, torch.nn.Module):
        called = getattr(type(called), "forward", None)
    called = inspect.unwrap(called) if isinstance(called, FunctionType) else called  # from @torch.no_grad()
    code = getattr(called, "__code__", None)
    if code is None or code.co_filename != spot.file:
        return None
    for node in ast.walk(spot.tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return None


def _off_around(tree: ast.Module, scope: Scope, line: int) -> Iterator[tuple[str, ast.AST]]:
    """`with torch.no_grad()` blocks around a line, and such decorators of its function."""
    for node in own_nodes(scope):
        if isinstance(node, ast.With) and node.lineno <= line <= (node.end_lineno or 0):
            for item in node.items:
                if _is_off(item.context_expr):
                    yield f"with {text_of(item.context_expr)}", item.context_expr
    around = scope_at(tree, line)
    if isinstance(around, ast.FunctionDef):
        for decorator in around.decorator_list:
            if _is_off(decorator):
                yield f"@{text_of(decorator)}", decorator


def _is_off(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        if text_of(node.func).endswith("set_grad_enabled"):
            return _is_false(node.args)
        node = node.func
    return text_of(node).split(".")[-1] in _OFF


def _is_false(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant) and arguments[0].value is False


def _modules(spot: Spot, clues: Clues) -> None:
    """How many parameters of each module at hand require a gradient: none in a frozen model."""
    for name, value in list(spot.frame.f_locals.items())[:500]:
        if isinstance(value, torch.nn.Module):
            sizes = [parameter.requires_grad for parameter in torch.nn.Module.parameters(value)]
            if sizes:
                clues.add("parameters", f"{name}: {sum(sizes)} of {len(sizes)} parameters require a gradient")
    if "parameters" not in dict(clues.found):
        leaves = [f"{name} {shape_of(tensor)}" for name, tensor in spot.tensors() if tensor.requires_grad]
        clues.add("tracked", ", ".join(leaves[:8]) or "no tensor here requires a gradient")
