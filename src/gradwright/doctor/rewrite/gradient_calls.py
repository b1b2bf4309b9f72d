"""Calls of ``autograd.grad`` on the entries of one tensor, one after the other: how they are written in a loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.statements import Origins

_ARGUMENTS = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused")
_ONES = ("torch.ones_like", "torch.ones")


@dataclass(frozen=True, eq=False)
class GradientCall:
    """``autograd.grad(output[sample, *columns], target, *flags)``.

    ``base``: the tensor whose entries are differentiated; ``columns``: the indices after the sample's; ``summed``: they
    are summed over (``output[j].sum()``). ``outputs`` is the argument as it stands; ``flags``: the rest of them.
    """

    node: ast.Call
    outputs: ast.expr
    base: ast.expr
    columns: tuple[ast.expr, ...]
    summed: bool
    target: ast.expr
    flags: tuple[ast.keyword, ...]


def find_calls(loop: ast.AST, origins: Origins, sample: str, elements: Mapping[str, ast.expr]) -> list[GradientCall]:
    """The calls in a loop whose variable is ``sample``. ``elements``: what stands for ``over[sample]``, by name.

    Raises: DeclinedError, where one is of another kind.
    """
    found = [
        _read(node, sample, elements)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and is_gradient(node, origins)
    ]
    if not found:
        raise DeclinedError("the loop's own text takes no gradient")
    return found


def is_gradient(node: ast.Call, origins: Origins) -> bool:
    dotted = origins.dotted(node.func)
    return dotted.endswith("autograd.grad") or dotted == "grad"


def _read(node: ast.Call, sample: str, elements: Mapping[str, ast.expr]) -> GradientCall:
    given = {keyword.arg: keyword for keyword in node.keywords}
    for name, argument in zip(_ARGUMENTS, node.args, strict=False):
        given[name] = ast.keyword(name, argument)
    if None in given or not {"outputs", "inputs"} <= set(given) or any(isinstance(a, ast.Starred) for a in node.args):
        raise DeclinedError("the arguments of autograd.grad are not written out")
    outputs, inputs = given["outputs"].value, given["inputs"].value
    if "grad_outputs" in given and not _is_ones(given["grad_outputs"].value):
        raise DeclinedError("autograd.grad is given a cotangent of its own")
    flags = tuple(one for name, one in given.items() if name not in ("outputs", "inputs", "grad_outputs"))
    if any(isinstance(inner, ast.Name) and inner.id == sample for flag in flags for inner in ast.walk(flag)):
        raise DeclinedError("what autograd.grad is told depends on the loop's variable")
    base, summed = _unsummed(_only(outputs))
    indices: list[ast.expr] = []
    while isinstance(base, ast.Subscript):
        parts = list(base.slice.elts) if isinstance(base.slice, ast.Tuple) else [base.slice]
        indices, base = [*parts, *indices], base.value
        if isinstance(parts[0], ast.Name) and parts[0].id == sample:
            return GradientCall(node, outputs, base, tuple(indices[1:]), summed, _only(inputs), flags)
    if isinstance(base, ast.Name) and base.id in elements:
        return GradientCall(node, outputs, elements[base.id], tuple(indices), summed, _only(inputs), flags)
    raise DeclinedError(f"what is differentiated is no entry of one tensor, chosen by {sample}")


def _only(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1 else node


def _unsummed(node: ast.expr) -> tuple[ast.expr, bool]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        if node.func.attr == "sum":
            return node.func.value, True
        if node.func.attr == "squeeze":
            return _unsummed(node.func.value)
    return node, False


def _is_ones(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    value = node.args[0] if node.args else None
    if name in ("torch.tensor", "torch.as_tensor"):
        return isinstance(value, ast.Constant) and value.value == 1
    return name in _ONES


@dataclass(frozen=True)
class Rows:
    """What ``for variable in range(start, stop)`` walks over, as text; ``elements``: names that stand for
    ``over[variable]``, where the loop runs over something (whole, then: ``start`` and ``stop`` are empty)."""

    variable: str
    start: str
    stop: str
    elements: Mapping[str, ast.expr]

    @property
    def selected(self) -> str:
        return f"{self.start}:{self.stop}"


def rows_of(loop: ast.For | ast.comprehension, text_of: Callable[[ast.AST], str]) -> Rows:
    """Raises: DeclinedError, where the loop is of another kind."""
    iterator, target = loop.iter, loop.target
    if (
        getattr(loop, "orelse", ())
        or not isinstance(iterator, ast.Call)
        or not isinstance(iterator.func, ast.Name)
        or iterator.keywords
    ):
        raise DeclinedError("the loop does not count")
    name, arguments = iterator.func.id, iterator.args
    if name == "range" and isinstance(target, ast.Name) and len(arguments) in (1, 2):
        start = "" if len(arguments) == 1 or ast.unparse(arguments[0]) == "0" else text_of(arguments[0])
        return Rows(target.id, start, text_of(arguments[-1]), {})
    if name == "enumerate" and len(arguments) == 1 and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        counted, element = target.elts
        elements = _elements(element, arguments[0])
        if isinstance(counted, ast.Name) and elements:
            return Rows(counted.id, "", "", elements)
    raise DeclinedError("the loop does not count")


def _elements(element: ast.expr, over: ast.expr) -> dict[str, ast.expr]:
    if isinstance(element, ast.Name):
        return {element.id: over}
    if (
        isinstance(over, ast.Call)
        and isinstance(over.func, ast.Name)
        and over.func.id == "zip"
        and not over.keywords
        and isinstance(element, ast.Tuple)
        and len(element.elts) == len(over.args)
    ):
        pairs = zip(element.elts, over.args, strict=True)
        return {name.id: one for name, one in pairs if isinstance(name, ast.Name)}
    return {}
