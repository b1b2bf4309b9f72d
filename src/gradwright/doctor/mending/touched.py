"""What lines of a file touch: the names they read, write and change in place, and whose memory they share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# Each function's or method's class and first parameter ("" where there is none), by qualified name.
Owners = dict[str, tuple[str, str]]

# Methods that change what they are called on: torch's end in an underscore.
_CHANGING = re.compile(
    r".*_|save_for_(?:backward|forward)|mark_(?:dirty|non_differentiable)|set_materialize_grads|register_\w+"
    r"|append|extend|insert|pop|clear|update|remove|setdefault"
)

# Methods and functions whose result may lie in the memory of what they are given, or is it.
_VIEW = re.compile(
    r".*_|.*view.*|.*squeeze|.*reshape.*|expand.*|broadcast.*|t|T|mT|.*transpose|permute|movedim|moveaxis|swap\w+|flip"
    r"|narrow|select|unfold|diagonal|as\w+|from_\w+|numpy|to|type\w*|float|double|half|bfloat16|int|long|bool|cpu|cuda"
    r"|contiguous|detach|flatten|unflatten|chunk|\w*split|unbind|einsum|real|imag|conj|resolve_\w+|apply|get|pop"
)


@dataclass
class Touched:
    """The names that lines use: ``in_place`` are those whose values they change, which are among ``writes`` too.

    ``shared`` holds, as text, what they assign or return that may lie in the memory of something else.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    in_place: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)


def touched(tree: ast.Module, ranges: Sequence[tuple[int, int]], owners: Owners) -> dict[str, Touched]:
    """By outermost function or method ("" for the module): what stands in the ranges of lines."""
    found: dict[str, Touched] = {}
    for scope, node in _walk(tree, "", owners):
        line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if any(first <= line <= last for first, last in ranges):
            _note(node, found.setdefault(scope, Touched()))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Return) and any(
            line <= last and first <= end for first, last in ranges
        ):
            found.setdefault(scope, Touched()).shared.update(_shared(node.value))
    return found


def _shared(value: ast.expr | None) -> Iterator[str]:
    """What of a value may be memory that has another name: names, parts, views; arithmetic makes its own."""
    if isinstance(value, ast.Tuple | ast.List):
        for item in value.elts:
            yield from _shared(item)
    elif isinstance(value, ast.IfExp):
        yield from (*_shared(value.body), *_shared(value.orelse))
    elif isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Starred | ast.NamedExpr) or (
        isinstance(value, ast.Call)
        and (
            not isinstance(value.func, ast.Attribute)
            or _VIEW.fullmatch(value.func.attr) is not None
            or any(keyword.arg in ("out", "inplace") for keyword in value.keywords)
        )
    ):
        yield ast.dump(value)


def _walk(tree: ast.AST, scope: str, owners: Owners) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the qualified name of its outermost function."""
    for child in ast.iter_child_nodes(tree):
        inner = scope
        if scope not in owners and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}" if scope else child.name
            if not isinstance(child, ast.ClassDef):
                parameters = [*child.args.posonlyargs, *child.args.args]
                owners[inner] = (scope, parameters[0].arg if scope and parameters else "")
        yield (inner if inner in owners else ""), child
        yield from _walk(child, inner, owners)


def _note(node: ast.AST, touched: Touched) -> None:
    if isinstance(node, ast.Name):
        (touched.reads if isinstance(node.ctx, ast.Load) else touched.writes).add(node.id)
    elif isinstance(node, ast.AugAssign):
        _note_in_place(node.target, touched)
    elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        _note_in_place(node, touched)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and _CHANGING.fullmatch(node.func.attr):
            _note_in_place(node.func.value, touched)
        for keyword in node.keywords:
            if keyword.arg == "out":
                _note_in_place(keyword.value, touched)
            elif keyword.arg == "inplace" and node.args:
                _note_in_place(node.args[0], touched)


def _note_in_place(node: ast.expr, touched: Touched) -> None:
    """The name at the root of ``x``, ``x[i]``, ``x.data``, ``x.view(-1)``."""
    while not isinstance(node, ast.Name):
        below = next((child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)), None)
        if below is None:
            return
        node = below
    touched.in_place.add(node.id)
    touched.writes.add(node.id)


def names_of_module(tree: ast.Module) -> dict[str, str]:
    """What each name of the module's level stands for, as text."""
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[statement.name] = ast.dump(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                found[alias.asname or alias.name.split(".")[0]] = f"{getattr(statement, 'module', '')}:{alias.name}"
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = ast.dump(statement)
    return found
