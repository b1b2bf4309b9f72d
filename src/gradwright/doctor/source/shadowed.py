"""Builtins that are used as if they were tensors, because no name of that kind is bound there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.names import Scope, parameters
from gradwright.doctor.source.statements import DEFINITIONS, Origins, Placed, definitions, statements

# What is callable and no exception; `print >> file` is Python 2, and another fault.
_BUILTINS = {
    name: value
    for name, value in vars(builtins).items()
    if callable(value)
    and not name.startswith("_")
    and name not in ("print", "copyright", "credits", "license", "exit", "quit", "help")
    and not (isinstance(value, type) and issubclass(value, BaseException))
}
# Of torch, what takes functions or anything at all.
_TAKES_FUNCTIONS = {"vmap", "compile", "cond", "while_loop", "typename", "save", "tensor", "as_tensor", "is_tensor"}


@dataclass(frozen=True, slots=True)
class BuiltinUse:
    """One use; ``placed`` is the innermost function around it."""

    placed: Placed
    name: str
    node: ast.expr


def builtins_as_tensors(file: SourceFile) -> Iterator[BuiltinUse]:
    """Uses inside functions, in the order of the text; none in a file with ``from x import *``, which may bind all.

    A use: an operand of arithmetic or of an order comparison, an index into it, an attribute that it does not have, or
    (functions only) a positional argument of an operation of torch. Annotations, generic aliases (``list[int]``),
    unions (``int | None``) and ``"..." % type`` are none.
    """
    origins = Origins(file.tree)
    if origins.star:
        return
    scopes: dict[ast.AST, frozenset[str]] = {}

    def bound(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
        if node not in scopes:
            scope = Scope.of(node)
            scopes[node] = frozenset(scope.binds) | scope.declared
        return scopes[node]

    declared = {name for node in statements(file.tree.body) if isinstance(node, ast.Global) for name in node.names}
    for placed in definitions(file.tree):
        if isinstance(placed.node, ast.ClassDef):
            continue
        around = [node for node in placed.around if not isinstance(node, ast.ClassDef)]
        known = bound(file.tree).union(declared, *(bound(node) for node in (*around, placed.node)))
        found = _uses(placed.node, origins, known)
        yield from sorted(
            (BuiltinUse(placed, name, node) for name, node in found),
            key=lambda use: (use.node.lineno, use.node.col_offset),
        )


def _uses(
    function: ast.FunctionDef | ast.AsyncFunctionDef, origins: Origins, known: frozenset[str]
) -> Iterator[tuple[str, ast.expr]]:
    stack: list[tuple[ast.AST, frozenset[str]]] = [(statement, known) for statement in function.body]
    while stack:
        node, bound = stack.pop()
        if isinstance(node, DEFINITIONS):
            continue  # judged on their own
        if isinstance(node, ast.AnnAssign):
            stack += [(part, bound) for part in (node.target, node.value) if part is not None]
            continue
        if isinstance(node, ast.Lambda):
            bound = bound.union(parameters(node))
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = [inner for generator in node.generators for inner in ast.walk(generator.target)]
            bound = bound.union(inner.id for inner in targets if isinstance(inner, ast.Name))
        for used in _tensor_like(node, origins):
            if isinstance(used, ast.Name) and used.id in _BUILTINS and used.id not in bound and _fits(node, used):
                yield used.id, used
        stack.extend((child, bound) for child in ast.iter_child_nodes(node))


def _tensor_like(node: ast.AST, origins: Origins) -> list[ast.expr]:
    """The parts of a node that must be numbers or tensors."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.BitOr):
            return []  # int | None
        if isinstance(node.op, ast.Mod) and isinstance(node.left, (ast.Constant, ast.JoinedStr)):
            return []  # "%s" % type
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.BitOr):
        return [node.value]
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return [node.left, *node.comparators]
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return [node.value]
    if isinstance(node, ast.Call):
        dotted = origins.dotted(node.func)
        module, _, operation = dotted.rpartition(".")
        if (
            module in ("torch", "torch.nn.functional")
            and operation not in _TAKES_FUNCTIONS
            and not operation.startswith("is_")
        ):
            return list(node.args)
    return []


def _fits(node: ast.AST, used: ast.Name) -> bool:
    """Whether the use is one that this builtin can't stand."""
    value = _BUILTINS[used.id]
    if isinstance(node, ast.Subscript):
        return used.id != "type" and not hasattr(value, "__class_getitem__")
    if isinstance(node, ast.Attribute):
        return not hasattr(value, node.attr)
    if isinstance(node, ast.Call):
        return not isinstance(value, type)  # torch.zeros(3, dtype=float) and the like name types
    return True
