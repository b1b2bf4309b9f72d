"""Small pieces of Python's syntax tree, and how they are written down."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence

from gradwright.doctor.rewrite.source_text import DeclinedError


def name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def constant(value: int | float | None) -> ast.expr:
    if isinstance(value, int | float) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def attribute(base: ast.expr, attr: str) -> ast.Attribute:
    return ast.Attribute(base, attr, ast.Load())


def call(function: ast.expr, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [ast.keyword(key, value) for key, value in keywords.items()])


def method(base: ast.expr, attr: str, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    return call(attribute(base, attr), *args, **keywords)


def subscript(base: ast.expr, parts: Sequence[ast.expr]) -> ast.expr:
    """``base[parts]``; ``base`` itself if all of them are ``:``."""
    kept = list(parts)
    while kept and is_whole(kept[-1]):
        kept.pop()
    if not kept:
        return base
    index = kept[0] if len(kept) == 1 else ast.Tuple(kept, ast.Load())
    return ast.Subscript(base, index, ast.Load())


def is_whole(part: ast.expr) -> bool:
    """``:`` as an index."""
    return isinstance(part, ast.Slice) and part.lower is None and part.upper is None and part.step is None


def whole() -> ast.Slice:
    return ast.Slice()


def is_none(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def integer(node: ast.expr | None) -> int | None:
    """The value of a literal integer, with its sign."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = integer(node.operand)
        return None if inner is None else -inner
    return None


def number(node: ast.expr) -> float | None:
    """The value of a literal number, with its sign."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]  # the line above has asked
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    return None


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def root_name(node: ast.expr) -> str:
    """``self`` for ``self.x[i].y``; "" for what is computed."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Printer:
    """Writes expressions on one line, with the user's literals as the user wrote them (``1e-3``, ``"mean"``).

    ``words``: every name in the file.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.removeprefix("\ufeff").splitlines(keepends=True)
        self.words = set(re.findall(r"[^\W\d]\w*", text))

    def code(self, node: ast.expr) -> str:
        written = ast.unparse(ast.fix_missing_locations(self.with_literals(node)))
        if "\n" in written:
            raise DeclinedError("an expression that does not fit on one line")
        return written

    def with_literals(self, node: ast.AST) -> ast.AST:
        changed = _Literals(self).visit(copied(node))
        assert isinstance(changed, ast.AST)
        return changed

    def literal(self, node: ast.Constant) -> str | None:
        if not hasattr(node, "lineno") or node.lineno != node.end_lineno or node.lineno > len(self._lines):
            return None
        line = self._lines[node.lineno - 1].encode()
        text = line[node.col_offset : node.end_col_offset].decode(errors="replace")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return None
        return text if type(value) is type(node.value) and value == node.value else None


class _Literals(ast.NodeTransformer):
    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def visit_Constant(self, node: ast.Constant) -> ast.expr:  # ast's own name for it
        text = self.printer.literal(node)
        return node if text is None else ast.Name(text, ast.Load())


def copied(node: ast.AST) -> ast.AST:
    """A tree of its own: nodes may stand in several places of what is written."""

    def value_of(value: object) -> object:
        if isinstance(value, list):
            return [value_of(item) for item in value]
        return copied(value) if isinstance(value, ast.AST) else value

    return ast.copy_location(type(node)(**{field: value_of(value) for field, value in ast.iter_fields(node)}), node)


def is_read_as_it_is(node: ast.expr) -> bool:
    """``x[i].item()``, ``float(x[i])``: nothing is computed."""
    called = node.func if isinstance(node, ast.Call) else None
    inside = called.value if isinstance(called, ast.Attribute) and called.attr == "item" else None
    if isinstance(called, ast.Name) and called.id in ("float", "int") and isinstance(node, ast.Call) and node.args:
        inside = node.args[0]
    return isinstance(inside, ast.Name | ast.Subscript | ast.Attribute)


def is_short(number: float) -> bool:
    """Whether it has at most 24 binary digits: then float32 has the same number as float64."""
    return not math.isfinite(number) or (math.frexp(number)[0] * 2**24).is_integer()
