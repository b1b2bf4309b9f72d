"""The text that stands in the loop's place: when the kernel is called, with what, and what its results become."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.kernels.arguments import Argument
from gradwright.doctor.rewrite.kernels.conditions import conditions_of, runs_at_all
from gradwright.doctor.rewrite.kernels.stores import Appended
from gradwright.doctor.rewrite.kernels.translation import Subject, Translated
from gradwright.doctor.rewrite.kernels.values import Row, Scalar
from gradwright.doctor.rewrite.source_text import SourceText

WIDTH = 100


@dataclass
class Call:
    """``lines`` take the place of the lines ``first`` to ``last``; ``after``: a place further down (line, first and
    last column in bytes, what stands there then)."""

    first: int
    last: int
    lines: list[str]
    after: list[tuple[int, int, int, str]] = field(default_factory=list)


def call_of(
    source: SourceText, subject: Subject, found: Translated, kernel: str, returned: list[str], torch: str
) -> Call:
    """The loop's place, once the kernel is there."""
    loop = subject.loop
    first, last = subject.statements[0].lineno, subject.statements[-1].end_lineno or loop.lineno
    indent = source.indent_of(first)
    unit = _unit(source, subject)
    given = sorted(found.arguments.given.values(), key=lambda one: one.tensor is None)
    call = f"{kernel}({', '.join(_argument(one, subject) for one in given)})"
    stacks = {name: stack for name in found.stores.lists if (stack := _stack_of(subject, found, name)) is not None}
    conditions = conditions_of(subject, found, torch)
    if stacks:
        conditions.append(runs_at_all(loop))
    fast = _results(subject, found, returned, call, stacks, torch)
    fast += [f"{torch}.autograd.graph.increment_version({text})" for text in _changed(subject, found)]
    old = [line.rstrip("\r\n") for line in source.lines[first - 1 : last]]
    slow = [unit + line if line.strip() else line for line in old]
    slow += [f"{indent}{unit}{name} = {ast.unparse(stack)}" for name, stack in stacks.items()]
    lines = [*_if(indent, unit, list(dict.fromkeys(conditions)))]
    lines += [piece for line in fast for piece in _wrapped(indent + unit, unit, line, kernel)]
    lines += [f"{indent}else:", *slow]
    after = [(s.lineno, s.col_offset, s.end_col_offset or 0, name) for name, s in stacks.items()]
    return Call(first, last, lines, after)


def _unit(source: SourceText, subject: Subject) -> str:
    """One step of indentation, as the function has it."""
    inner, outer = source.indent_of(subject.function.body[0].lineno), source.indent_of(subject.function.lineno)
    return inner.removeprefix(outer) or "    "


def _if(indent: str, unit: str, conditions: list[str]) -> list[str]:
    line = f"{indent}if {' and '.join(conditions) or 'True'}:"
    if len(line) <= WIDTH:
        return [line]
    first, *more = conditions
    return [f"{indent}if (", f"{indent}{unit}{first}", *(f"{indent}{unit}and {one}" for one in more), f"{indent}):"]


def _wrapped(indent: str, unit: str, line: str, kernel: str) -> list[str]:
    """A long call of the kernel, one argument to a line."""
    head, found, rest = line.partition(f"{kernel}(")
    if len(indent + line) <= WIDTH or not found:
        return [indent + line]
    call = next(n for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Call) and ast.unparse(n.func) == kernel)
    arguments = [f"{indent}{unit}{ast.unparse(one)}," for one in call.args]
    end = (call.end_col_offset or 0) - len((head + found).encode())
    return [f"{indent}{head}{found}", *arguments, f"{indent}){rest.encode()[end:].decode()}"]


def _argument(one: Argument, subject: Subject) -> str:
    if one.tensor is None:
        return one.text
    if not one.tensor.shape and not one.in_place:
        return f"{one.text}.item()"
    return f"{one.text}.numpy()" if one.text in subject.buffers.fresh else f"{one.text}.detach().numpy()"


def _changed(subject: Subject, found: Translated) -> list[str]:
    """Tensors of others that the kernel writes into: autograd counts versions, and a kernel counts none."""
    given = {one.parameter: one.text for one in found.arguments.given.values() if one.tensor is not None}
    changed = [given[one] for one in sorted(found.stores.written) if one in given]
    return [text for text in changed if text not in subject.buffers.fresh]


# --- results ---------------------------------------------------------------------------------------------------------


def _results(
    subject: Subject, found: Translated, returned: list[str], call: str, stacks: dict[str, ast.Call], torch: str
) -> list[str]:
    like = next((one.text for one in found.arguments.given.values() if one.parameter == found.writer.like), "")
    like = like or next((one.text for one in found.arguments.given.values() if one.tensor is not None), "")
    kept: dict[str, Row | Scalar | Appended] = {**found.outputs, **found.stores.lists}
    if not returned:
        return [call]
    if len(returned) == 1:
        return [_become(returned[0], kept[returned[0]], call, like, stacks, torch)]
    held = [f"{name}_rows" if name in found.stores.lists and name not in stacks else name for name in returned]
    lines = [f"{', '.join(held)} = {call}"]
    for name, own in zip(returned, held, strict=True):
        line = _become(name, kept[name], own, like, stacks, torch)
        lines += [line] if line != f"{name} = {own}" else []
    return lines


def _become(
    name: str, value: Row | Scalar | Appended, result: str, like: str, stacks: dict[str, ast.Call], torch: str
) -> str:
    if isinstance(value, Appended):
        item = value.value
        if isinstance(item, Scalar) and item.tensor is False:
            return f"{name}.extend({result}.tolist())"
        if name not in stacks:
            return f"{name}.extend({torch}.from_numpy({result}))"
        axis = _axis(stacks[name])
        moved = f".movedim(0, {axis}).contiguous()" if axis else ""
        return f"{name} = {torch}.from_numpy({result}){moved}"
    if isinstance(value, Row):
        return f"{name} = {torch}.from_numpy({result})"
    if value.tensor is False:
        return f"{name} = {result}"
    dtype = {"int": f", dtype={torch}.int64", "bool": f", dtype={torch}.bool"}.get(value.type, "")
    return f"{name} = {like}.new_full((), {result}{dtype})"


def _axis(stack: ast.Call) -> int:
    nodes = [*stack.args[1:], *(one.value for one in stack.keywords)]
    return nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) and isinstance(nodes[0].value, int) else 0


def _stack_of(subject: Subject, found: Translated, name: str) -> ast.Call | None:
    """``torch.stack(name)`` after the loop, if that is all that becomes of the list."""
    if not found.stores.exact(name) or (
        isinstance(v := found.stores.lists[name].value, Scalar) and v.tensor is not True
    ):
        return None
    loop, function = subject.loop, subject.function
    inside = set(map(id, ast.walk(loop)))
    block = next(
        (
            body
            for parent in ast.walk(function)
            for field_ in ("body", "orelse", "finalbody")
            if isinstance(body := getattr(parent, field_, None), list) and loop in body
        ),
        [],
    )
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and id(n) not in inside]
    created = [n for n in uses if isinstance(n.ctx, ast.Store)]
    read = [n for n in uses if isinstance(n.ctx, ast.Load)]
    empty = any(
        isinstance(one, ast.Assign)
        and one.targets == created
        and isinstance(one.value, ast.List)
        and not one.value.elts
        for one in block[: block.index(loop)]
    )
    if len(created) != 1 or len(read) != 1 or not empty:
        return None
    for statement in block[block.index(loop) + 1 :]:
        if isinstance(statement, ast.Assign | ast.Return | ast.Expr | ast.AugAssign | ast.AnnAssign):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and node.args and node.args[0] is read[0] and _is_stack(subject, node):
                    return node
    return None


def _is_stack(subject: Subject, node: ast.Call) -> bool:
    if subject.origins.dotted(node.func) != "torch.stack" or node.lineno != node.end_lineno:
        return False
    more = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "dim")]
    plain = all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in more)
    return plain and len(more) <= 1 and len(more) == len(node.args) + len(node.keywords) - 1
