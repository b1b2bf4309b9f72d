"""The statements after a loop that use the lists it filled; and the lists, where somebody else reads them."""

from __future__ import annotations

import ast
import copy

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.keeping import as_python
from gradwright.doctor.rewrite.loops.lists import CONSUMERS, depends_on_length, mean_of
from gradwright.doctor.rewrite.loops.phrasing import LONG_LINE
from gradwright.doctor.rewrite.loops.targets import used_between
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.liveness import read_after

_TARGET = len("return ")


def write_tail(writer: Writer) -> None:
    """The statements after the loop that use its lists; and the lists themselves, where somebody else reads them."""
    tail = [copy.deepcopy(statement) for statement in writer.nest.tail]
    changed: list[ast.stmt] = []
    used = _Used(writer)
    for statement in tail:
        changed.append(used.visit(statement))
    left = {name for statement in changed for name in nodes.names_in(statement)} | writer.nest.live_outs
    left |= {name for name in writer.context.lists if _read_later(writer, name)}
    kept = [name for name in writer.context.lists if name in left and name not in _inner_lists(writer)]
    makings = {name: writer.made(name) for name in writer.context.lists if name not in _inner_lists(writer)}
    for name in kept:
        _write_list(writer, name)
    for name, made in makings.items():
        if made is not None and not used_between(writer.context.frame, made.statement, writer.at, name):
            writer.dropped[name] = made
    for name, made in list(writer.dropped.items()):
        if not set(made.beside) <= set(writer.dropped):
            del writer.dropped[name]
    for old, new in zip(writer.nest.tail, tail if kept else changed, strict=True):
        writer.comments_before(old.lineno, old.end_lineno or 0)
        shown = new if not kept else old
        if isinstance(shown, ast.Assign | ast.Return) and shown.value is not None and not kept:
            shown.value = writer.parted(shown.value, LONG_LINE - _TARGET)
        writer.write(_statement(writer, shown))


def _read_later(writer: Writer, name: str) -> bool:
    """Whether anybody reads the list after the region."""
    frame = writer.context.frame
    last = max((s.end_lineno or 0) for s in (writer.at, *writer.nest.tail))
    return frame.function is None or name in read_after(frame.tree, writer.at.lineno, last)


def _inner_lists(writer: Writer) -> set[str]:
    return {
        s.target.base
        for s in writer.nest.statements
        if s.kind == "assign" and isinstance(s.value, ast.List) and s.loops
    }


def _write_list(writer: Writer, name: str) -> None:
    value = writer.lists.get(name) or writer.context.lists[name]
    if value.number:
        writer.assign(name, nodes.method(value.node, "tolist"))
    else:
        node = nodes.method(value.node, "clone") if isinstance(value.node, ast.Name) else value.node
        writer.assign(name, nodes.call(nodes.name("list"), node))


def _statement(writer: Writer, statement: ast.stmt) -> str:
    text = ast.unparse(ast.fix_missing_locations(writer.printer.with_literals(statement)))
    if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple) and len(statement.value.elts) > 1:
        text = f"return {text.removeprefix('return (').removesuffix(')')}"
    if "\n" in text:
        raise DeclinedError("a statement after the loop that does not fit on one line")
    return text


class _Used(ast.NodeTransformer):
    """Puts tensors in the place of what is made of the lists."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.low = writer.lowering(())

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:  # ast's own name for it
        total, count = node.left, node.right
        if isinstance(node.op, ast.Div) and isinstance(total, ast.Call) and isinstance(count, ast.Call):
            frame = self.writer.context.frame
            names = [one.args[0].id for one in (total, count) if one.args and isinstance(one.args[0], ast.Name)]
            functions = [frame.module_of(one.func) for one in (total, count)]
            if functions == ["builtins.sum", "builtins.len"] and len(names) == 2 and names[0] == names[1]:
                value = self.writer.context.lists.get(names[0])
                if value is not None and value.floating:
                    return as_python(self.writer, mean_of(value))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:  # ast's own name for it
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Name) and first.id in self.writer.context.lists:
            full = self.writer.context.frame.module_of(node.func)
            listed = self.writer.context.lists[first.id]
            if full.rsplit(".", 1)[-1] in CONSUMERS and not depends_on_length(full, node, listed):
                return as_python(self.writer, self.low.expression(node))
        return self.generic_visit(node)
