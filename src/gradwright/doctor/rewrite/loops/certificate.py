"""Why the order of iterations does not matter, if the text alone shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.loops.dependence import Dependences, place_of_access
from gradwright.doctor.rewrite.loops.expressions import (
    what,
)
from gradwright.doctor.rewrite.loops.ir import Nest
from gradwright.ground.syntax import dotted

_MAKERS = {"zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "rand", "randn"}
_MAKERS |= {"new_zeros", "new_ones", "new_empty", "new_full", "clone", "arange", "linspace", "eye", "list", "dict"}
_COMPUTES = {"max", "min", "abs", "float", "int", "len", "sum", "range", "pow", "round", "bool"}


def certificate(
    nest: Nest,
    dependences: Dependences,
    function: ast.FunctionDef | ast.AsyncFunctionDef | None,
    before: Sequence[ast.stmt],
) -> str:
    """One sentence, or "" if the independence rests on what was seen in the run: which arrays share no memory, and
    that functions of the user's do nothing but compute."""
    effects = dependences.effects
    if any(_is_opaque(node, dependences) for statement in nest.statements for node in _calls(statement.value)):
        return ""
    written = {
        update.base
        for statement in nest.statements
        for update in effects[statement].updates
        if dependences.storage.in_memory(statement, place_of_access(statement, update))
    } - nest.temporaries
    others = {access.base for one in effects.values() for access in (*one.reads, *one.updates)} - nest.temporaries
    above = [*_above(function, nest.node)] if function is not None else [*before]
    for base in written:
        if others - {base} and not _is_number(base, dependences) and not _made(base, above):
            return ""
    return "every iteration has elements of its own, or only adds up, and no array that is written has a second name"


def _is_number(base: str, dependences: Dependences) -> bool:
    found = dependences.seen.live_ins.get(base)
    return found is not None and found.type in ("int", "float", "bool")


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def _is_opaque(call: ast.Call, dependences: Dependences) -> bool:
    """Whether the call may do more than compute: it is not one of torch's, of a tensor's, or of Python's own."""
    if dotted(call.func) in _COMPUTES:
        return False
    found = what(call.func, dependences.seen)
    known = found.dotted if found is not None and found.dotted else dotted(call.func)
    if known.startswith(("torch.", "math.", "builtins.")):
        return False
    under = what(call.func.value, dependences.seen) if isinstance(call.func, ast.Attribute) else None
    return under is None or under.tensor is None


def _above(function: ast.AST, loop: ast.stmt) -> Iterator[ast.stmt]:
    """The simple statements of a function that end before the loop begins."""
    for node in ast.walk(function):
        if not isinstance(node, ast.stmt) or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if (node.end_lineno or 0) < loop.lineno:
            yield node


def _made(base: str, above: Sequence[ast.stmt]) -> bool:
    """Whether the array was made above the loop, and is not named again before it."""
    uses = {
        id(node): node
        for statement in above
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == base
    }
    makes = [
        statement
        for statement in above
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and dotted(statement.targets[0]) == base
    ]
    if len(uses) != 1 or len(makes) != 1:
        return False
    value = makes[0].value
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else dotted(value.func)
        return name in _MAKERS
    if isinstance(value, ast.BinOp):  # [0] * n
        return any(isinstance(side, ast.List) for side in (value.left, value.right))
    return isinstance(value, (ast.List, ast.ListComp, ast.Dict, ast.Constant))
