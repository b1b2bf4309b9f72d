"""What the text of a forward and a backward tells before they are called.

Read is the syntax tree, or, where there is no source (``exec``, a shell without history), the bytecode.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from gradwright.functions.custom_gradient.residuals import residuals
from gradwright.ground.outside import named_outside


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """Its code, where it is written in Python."""
    target = function.__func__ if isinstance(function, MethodType) else function
    return target.__code__ if isinstance(target, FunctionType) else None


def tree_of(function: Callable[..., Any]) -> ast.FunctionDef | ast.Lambda | None:
    """Its syntax tree; ``None``, where there is no source, or more than one lambda stands in its line."""
    code = code_of(function)
    if code is None:
        return None
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = [
        node
        for node in ast.walk(module)
        if isinstance(node, (ast.FunctionDef, ast.Lambda))
        and getattr(node, "name", "<lambda>") == code.co_name
        and tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)) == names
    ]
    return found[0] if len(found) == 1 else None


def handed_over(forward: Callable[..., Any]) -> frozenset[str] | None:
    """The names of its residuals; ``None``, where they are known at the first call only (``**``, no source)."""
    code = code_of(forward)
    if code is None:
        return None
    calls = _residual_calls(forward, code)
    if calls is not None:
        keywords = [keyword for call in calls for keyword in call.keywords]
        if any(keyword.arg is None for keyword in keywords):
            return None
        return frozenset(keyword.arg for keyword in keywords if keyword.arg)
    return None if "residuals" in code.co_names else frozenset()


def _residual_calls(forward: Callable[..., Any], code: CodeType) -> list[ast.Call] | None:
    tree = tree_of(forward)
    if tree is None:
        return None
    known = {name for name, value in named_outside(forward).items() if value is residuals} | {"residuals"}

    def is_it(callee: ast.expr) -> bool:
        return (isinstance(callee, ast.Name) and callee.id in known) or (
            isinstance(callee, ast.Attribute) and callee.attr == "residuals"
        )

    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_it(node.func)]


def written_on(forward: Callable[..., Any]) -> frozenset[str]:
    """The inputs that its text writes on: ``x.add_(1)``, ``x[0] = 1``, ``x += 1``, before ``x`` is bound again."""
    tree = tree_of(forward)
    if tree is None:
        return frozenset()
    inputs = {argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
    bound: dict[str, int] = {}
    written: dict[str, int] = {}
    for node in ast.walk(tree):
        for name in _names_written(node):
            written[name] = min(node.lineno, written.get(name, node.lineno))  # type: ignore[attr-defined]
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = min(node.lineno, bound.get(node.id, node.lineno))
    return frozenset(name for name in inputs & set(written) if written[name] <= bound.get(name, written[name]))


def _names_written(node: ast.AST) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [target.value for target in node.targets if isinstance(target, ast.Subscript)]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _in_place(node.func.attr):
        targets = [node.func.value]
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"


def never_received(backward: Callable[..., Any], inputs: frozenset[str]) -> Iterator[tuple[str, str, int]]:
    """Names that the backward reads as values and was not handed, each with what it finds instead and the line.

    ``inputs`` are the names of the forward's inputs: read, and not called, such a name means the input, and finds a
    builtin or a global. Of other names only builtins are looked at, and only where no builtin can be meant: in
    arithmetic, behind a subscript or an attribute that it lacks, and as an argument of a function of torch.
    """
    code = code_of(backward)
    tree = tree_of(backward)
    if code is None:
        return
    seen: set[str] = set()
    for name, line in _globals_read(code):
        if name in inputs and name not in seen:
            seen.add(name)
            yield name, _found_instead(name, backward), line
    if tree is None:
        return
    unbound = {name for name, _ in _globals_read(code)} - set(getattr(backward, "__globals__", {}))
    for node in ast.walk(tree):
        for operand in _operands(node):
            name = operand.id
            if name in unbound and name not in seen and _no_builtin_is_meant(name, node):
                seen.add(name)
                yield name, _found_instead(name, backward), code.co_firstlineno + operand.lineno - tree.lineno


def _globals_read(code: CodeType) -> Iterator[tuple[str, int]]:
    """Globals (and builtins) that are read as values, not to be called: LOAD_GLOBAL tells by its lowest bit, from
    Python 3.13 on by the PUSH_NULL behind it."""
    line = code.co_firstlineno
    steps = list(dis.get_instructions(code))
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        line = (step.positions.lineno if step.positions else None) or line
        called = bool((step.arg or 0) & 1) or (following is not None and following.opname == "PUSH_NULL")
        if step.opname == "LOAD_GLOBAL" and not called:
            yield step.argval, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_read(constant)


def _found_instead(name: str, backward: Callable[..., Any]) -> str:
    if name in getattr(backward, "__globals__", {}):
        return f"the global `{name}` of its module"
    return f"Python's builtin `{name}`" if hasattr(builtins, name) else "nothing"


_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod)


def _operands(node: ast.AST) -> Iterator[ast.Name]:
    """Names in places where a tensor would stand."""
    found: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        found = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd, ast.Invert)):
        found = [node.operand]
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        found = [node.value]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _root(node.func) == "torch":
        found = list(node.args)
    yield from (item for item in found if isinstance(item, ast.Name))


def _root(node: ast.expr) -> str:
    """``torch`` of ``torch.cos``, not of ``torch.func.vmap``, which takes functions."""
    return node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""


def _no_builtin_is_meant(name: str, node: ast.AST) -> bool:
    value = getattr(builtins, name, None)
    if value is None or isinstance(value, (bool, type(Ellipsis), type(NotImplemented), str)):
        return False
    if isinstance(node, ast.Attribute):
        return not hasattr(value, node.attr)
    if isinstance(value, type):
        return isinstance(node, (ast.BinOp, ast.UnaryOp))  # list[int], torch.zeros(3, dtype=float) are fine
    return not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKE_FUNCTIONS
    )


_TAKE_FUNCTIONS = {"vmap", "compile", "apply", "apply_", "map_", "is_tensor"}
