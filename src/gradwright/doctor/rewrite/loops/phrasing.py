"""Long expressions are cut up: a mask that is used twice, or what makes a line too long, gets a name of its own.

What is written only computes, so that a part may be computed before the whole; not so one that Python may leave out
(an arm of ``a if b else c``, what stands behind ``and``).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.expressions import fresh

LONG_LINE = 106
LONG_MASK = 60
_WORTH_A_NAME = 30
_REDUCES = frozenset({"sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "max", "min"})
_NAMED = (ast.Call, ast.BinOp, ast.Subscript, ast.Compare, ast.IfExp)
_LAZY = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.Slice)
Code = Callable[[ast.expr], str]


def in_parts(node: ast.expr, room: int, code: Code, taken: set[str]) -> tuple[list[tuple[str, ast.expr]], ast.expr]:
    """Names for parts, in the order of their assignments, and the expression over them. ``taken`` grows by the names.

    ``room``: how many columns the right side may have.
    """
    parts: list[tuple[str, ast.expr]] = []
    for mask in _masks(node, room, code):
        parts.append((fresh("mask", taken), mask))
        node = _with(node, mask, parts[-1][0])
    while len(code(node)) > room:
        found = _largest(node, room, code)
        if found is None:
            break
        wanted, part = found
        parts.append((fresh(wanted, taken), part))
        node = _with(node, part, parts[-1][0])
    return parts, node


def _masks(node: ast.expr, room: int, code: Code) -> list[ast.expr]:
    """Conditions of ``torch.where`` that are long, or stand twice in a long line."""
    conditions = [
        one.args[0]
        for one in _evaluated(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "where"
        if len(one.args) == 3 and not isinstance(one.args[0], ast.Name)
    ]
    counts = Counter(map(ast.dump, conditions))
    crowded = len(code(node)) > room
    chosen = {
        ast.dump(one): one
        for one in conditions
        if (counts[ast.dump(one)] > 1 and crowded) or len(code(one)) > LONG_MASK
    }
    return list(chosen.values())


def _largest(node: ast.expr, room: int, code: Code) -> tuple[str, ast.expr] | None:
    """The longest part that fits on a line of its own, and what to call it; rather one that stands there twice."""
    best: tuple[bool, int, str, ast.expr] | None = None
    counts = Counter(ast.dump(one) for one in _evaluated(node))
    reduced = {
        id(one.func.value)
        for one in _evaluated(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _REDUCES
    }
    pairs = {id(one.value) for one in _evaluated(node) if isinstance(one, ast.Attribute) and one.attr == "values"}
    for one in _evaluated(node):
        if one is node or id(one) in pairs or not isinstance(one, _NAMED):
            continue
        if (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr in ("arange", "tensor", "empty")
        ):
            continue
        length, twice = len(code(one)), counts[ast.dump(one)] > 1
        if _WORTH_A_NAME <= length <= room and (best is None or (twice, length) > best[:2]):
            best = twice, length, _name_of(one, id(one) in reduced), one
    choice = next((one for one in _evaluated(node) if one is not node and isinstance(one, ast.IfExp)), None)
    return best[2:] if best else ("part", choice) if choice is not None else None


def _name_of(part: ast.expr, reduced: bool) -> str:
    if any(isinstance(one, ast.Attribute) and one.attr == "unfold" for one in ast.walk(part)):
        return "windows"
    if isinstance(part, ast.Compare):
        return "mask"
    return "terms" if reduced else "part"


def _evaluated(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions in it that are computed in any case."""
    yield node
    if isinstance(node, ast.IfExp):
        yield from _windows_of_a_convolution(node)
    if isinstance(node, _LAZY):
        return
    for child in ast.iter_child_nodes(node):
        inner = child.value if isinstance(child, ast.keyword) else child
        if isinstance(inner, ast.expr):
            yield from _evaluated(inner)


def _windows_of_a_convolution(node: ast.IfExp) -> Iterator[ast.expr]:
    """Of ``conv2d(x, w) if w.numel() else einsum(...)``: a view, refused only where the other arm refuses as well."""
    test = node.test.func if isinstance(node.test, ast.Call) else None
    called = node.orelse.args if isinstance(node.orelse, ast.Call) else []
    if isinstance(test, ast.Attribute) and test.attr == "numel":
        yield from (
            one
            for one in called
            if any(isinstance(part, ast.Attribute) and part.attr == "unfold" for part in ast.walk(one))
        )


def _with(node: ast.expr, part: ast.expr, name: str) -> ast.expr:
    wanted = ast.dump(part)

    class Named(ast.NodeTransformer):
        def visit(self, inner: ast.AST) -> ast.AST:
            return nodes.name(name) if ast.dump(inner) == wanted else self.generic_visit(inner)

    changed = Named().visit(nodes.copied(node))
    assert isinstance(changed, ast.expr)
    return changed
