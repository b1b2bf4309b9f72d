"""What a Function's class keeps for its backward, by its text: what is saved, set on ctx, read of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Use = Literal["nothing", "shape", "values"]
_OF_THE_SHAPE = frozenset({"shape", "dtype", "device", "size", "dim"})


@dataclass(frozen=True)
class KeptTensor:
    """One argument of ``ctx.save_for_backward``: its place in it, its node, its name in the backward, its use there."""

    position: int
    node: ast.expr
    name: str
    use: Use


@dataclass(frozen=True)
class KeptText:
    """``saved`` one by one, where they are saved and unpacked once; ``set``: statements ``ctx.name = ...``, by name."""

    saved: tuple[KeptTensor, ...]
    set: dict[str, ast.Assign]


def kept_in_text(text: str, line: int) -> KeptText | None:
    """Of the innermost class around ``line`` with a forward and a backward; None if there is none.

    >>> text = '''class F(Function):
    ...     def forward(ctx, x, w):
    ...         ctx.save_for_backward(x, w)
    ...         ctx.n = 3
    ...     def backward(ctx, g):
    ...         x, w = ctx.saved_tensors
    ...         return g * w, g.expand(x.shape)
    ... '''
    >>> found = kept_in_text(text, 1)
    >>> [(one.name, one.use) for one in found.saved], list(found.set)
    ([('x', 'shape'), ('w', 'values')], ['n'])
    """
    methods = function_methods(text, line)
    if not methods or {"jvp", "vjp", "vmap"} & set(methods):
        return None
    keeping, backward = methods.get("setup_context", methods["forward"]), methods["backward"]
    if not keeping.args.args or not backward.args.args:
        return None
    return KeptText(tuple(_saved(keeping, backward)), dict(_set(keeping, keeping.args.args[0].arg)))


def function_methods(text: str, line: int) -> dict[str, ast.FunctionDef]:
    """The methods of the innermost class around ``line`` with a forward and a backward; none if there is none."""
    methods: dict[str, ast.FunctionDef] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return methods
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _first_line(node) <= line <= (node.end_lineno or 0):
            own = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
            methods = own if {"forward", "backward"} <= set(own) else methods
    return methods


def _first_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _set(method: ast.FunctionDef, ctx: str) -> Iterator[tuple[str, ast.Assign]]:
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if _is_attribute(target, ctx):
                    assert isinstance(target, ast.Attribute)
                    yield target.attr, node


def _is_attribute(node: ast.AST, ctx: str, name: str = "") -> bool:
    of_ctx = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == ctx
    return of_ctx and (not name or node.attr == name)  # type: ignore[attr-defined]  # an attribute, as was asked


def _saved(keeping: ast.FunctionDef, backward: ast.FunctionDef) -> Iterator[KeptTensor]:
    ctx, own = keeping.args.args[0].arg, backward.args.args[0].arg
    calls = [
        node
        for node in ast.walk(keeping)
        if isinstance(node, ast.Call) and _is_attribute(node.func, ctx, "save_for_backward")
    ]
    unpacked = [
        node
        for node in ast.walk(backward)
        if isinstance(node, ast.Assign) and _is_attribute(node.value, own, "saved_tensors")
    ]
    reads = [node for node in ast.walk(backward) if _is_attribute(node, own, "saved_tensors")]
    if len(calls) != 1 or len(unpacked) != 1 or len(reads) != 1 or len(unpacked[0].targets) != 1:
        return
    target = unpacked[0].targets[0]
    names = [one.id for one in getattr(target, "elts", ()) if isinstance(one, ast.Name)]
    if len(names) != len(calls[0].args) or len(names) != len(getattr(target, "elts", ())):
        return
    parents = {child: parent for parent in ast.walk(backward) for child in ast.iter_child_nodes(parent)}
    for position, (name, node) in enumerate(zip(names, calls[0].args, strict=True)):
        named = [one for one in ast.walk(backward) if isinstance(one, ast.Name) and one.id == name]
        loads = [one for one in named if isinstance(one.ctx, ast.Load)]
        shapes = all(getattr(parents[one], "attr", "") in _OF_THE_SHAPE for one in loads)
        yield KeptTensor(position, node, name, "nothing" if not loads else "shape" if shapes else "values")
