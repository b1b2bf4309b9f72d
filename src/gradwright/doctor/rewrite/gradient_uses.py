"""What a loop over samples does with its gradients, and what becomes of the lists that it fills."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.gradient_calls import Rows
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.rewrite.splices import Splices
from gradwright.doctor.source.liveness import block_of

_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def used_row_by_row(splices: Splices, loop: ast.AST, variable: str, calls: Sequence[ast.Call]) -> bool:
    """Whether every gradient is only looked at in row ``variable``; False if in none. Raises: DeclinedError."""
    own = [
        is_row(splices, read, variable)
        for call in calls
        for read in reads_of(splices, loop, call)
    ]  # fmt: skip
    if not own:
        raise DeclinedError("the gradients are not used")
    if any(own) and not all(own):
        raise DeclinedError("a gradient is used row by row, and in other ways")
    return own[0]


def is_row(splices: Splices, node: ast.expr, variable: str) -> bool:
    """Whether ``node``, a gradient, stands as ``node[variable]`` or ``node[variable, ...]``."""
    parent = splices.parent(node)
    if not isinstance(parent, ast.Subscript) or parent.value is not node:
        return False
    first = parent.slice.elts[0] if isinstance(parent.slice, ast.Tuple) else parent.slice
    return isinstance(first, ast.Name) and first.id == variable


def reads_of(splices: Splices, loop: ast.AST, call: ast.Call) -> Iterator[ast.expr]:
    """Where the gradient (not the tuple that it comes in) is read."""
    parent = splices.parent(call)
    if isinstance(parent, ast.Subscript) and parent.value is call:
        holder = splices.parent(parent)
        if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
            yield from _loads(loop, holder.targets[0].id)
        else:
            yield parent
        return
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        raise DeclinedError("what autograd.grad returns is not taken apart where it is called")
    target = parent.targets[0]
    if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 1 and isinstance(target.elts[0], ast.Name):
        yield from _loads(loop, target.elts[0].id)
    elif isinstance(target, ast.Name):
        for read in _loads(loop, target.id):
            item = splices.parent(read)
            if not isinstance(item, ast.Subscript) or item.value is not read:
                raise DeclinedError(f"{target.id} is used as a tuple")
            yield item
    else:
        raise DeclinedError("what autograd.grad returns is not taken apart where it is called")


def _loads(loop: ast.AST, name: str) -> Iterator[ast.Name]:
    bound = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == name]
    if sum(not isinstance(node.ctx, ast.Load) for node in bound) != 1:
        raise DeclinedError(f"{name} is bound in several places")
    yield from (node for node in bound if isinstance(node.ctx, ast.Load))


# --- lists that are stacked afterwards -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lists:
    """Lists that are empty before the loop and of which only ``torch.stack`` is made afterwards.

    ``names``: the name that the tensor gets, by the list's. ``made``: the statements that make the lists, ``lines``:
    the last lines of those that stack them.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    made: Sequence[ast.stmt] = ()
    lines: Sequence[int] = ()


def stacked_lists(splices: Splices, loop: ast.For, outer: ast.For) -> Lists:
    """The lists that a loop fills in this way, with the edits that make tensors of their uses."""
    names: dict[str, str] = {}
    made: list[ast.stmt] = []
    lines: list[int] = []
    if loop is not outer:
        return Lists()
    block, around = block_of(splices.tree, loop.lineno)
    for name in dict.fromkeys(_filled(loop)):
        scope: ast.AST = next((node for node in reversed(around) if isinstance(node, _BLOCKS)), splices.tree)
        uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name]
        outside = [node for node in uses if not _within(node, loop)]
        creation = _creation(block, loop, name)
        stacks = [(_stack(splices, node), node) for node in outside if isinstance(node.ctx, ast.Load)]
        inside = [node for node in uses if _within(node, loop)]
        after = [statement for statement in block if statement.lineno > (loop.end_lineno or 0)]
        if creation is None or not stacks or len(inside) != 1 or len(outside) != len(stacks) + 1:
            continue
        if any(call is None or not any(_within(node, one) for one in after) for call, node in stacks):
            continue
        calls = [call for call, _ in stacks if call is not None]
        names[name] = _named(splices, loop, after, calls) or name
        for call, (_, node) in zip(calls, stacks, strict=True):
            if names[name] == name:
                splices.replace(call, name)
            lines.append(next(one.end_lineno or 0 for one in after if _within(node, one)))
        made.append(creation)
    return Lists(names, made, lines)


def _named(splices: Splices, loop: ast.For, after: Sequence[ast.stmt], calls: Sequence[ast.Call]) -> str:
    """``stacked``, where ``stacked = torch.stack(rows)`` comes right after the loop: that statement goes."""
    statement = splices.parent(calls[0])
    if len(calls) != 1 or not after or statement is not after[0] or not isinstance(statement, ast.Assign):
        return ""
    target = statement.targets[0]
    used = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name)}
    if len(statement.targets) != 1 or not isinstance(target, ast.Name) or target.id in used:
        return ""
    last = statement.end_lineno or statement.lineno
    start = splices.start_of_line(statement.lineno) - 1  # with the newline before it
    splices.replace_span(start, splices.start_of_line(last) + len(splices.lines[last - 1]), "")
    return target.id


def _filled(loop: ast.For) -> Iterator[str]:
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and node.attr == "append" and isinstance(node.value, ast.Name):
            yield node.value.id


def _within(node: ast.AST, statement: ast.stmt) -> bool:
    line: int = node.lineno  # type: ignore[attr-defined]  # an expression
    return statement.lineno <= line <= (statement.end_lineno or 0)


def _creation(block: Sequence[ast.stmt], loop: ast.For, name: str) -> ast.stmt | None:
    """``name = []``, in the same block above the loop."""
    for statement in block:
        if statement.lineno >= loop.lineno:
            return None
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == name
        ):
            empty = isinstance(statement.value, ast.List) and not statement.value.elts
            return statement if empty else None
    return None


def _stack(splices: Splices, node: ast.Name) -> ast.Call | None:
    """``torch.stack(name)``, along the first axis."""
    call = splices.parent(node)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not node:
        return None
    axes = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    first = all(isinstance(axis, ast.Constant) and axis.value == 0 for axis in axes)
    return call if first and ast.unparse(call.func) == "torch.stack" else None


# --- does the loop go over the whole batch? --------------------------------------------------------------------------


def is_whole(rows: Rows, loop: ast.stmt, splices: Splices, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the text shows that every sample has its round; otherwise rows are selected."""
    if rows.elements:
        return True
    if rows.start:
        return False
    forms = ("len({})", "{}.shape[0]", "{}.size(0)")
    lengths = {form.format(text) for pair in pairs for text in pair for form in forms}
    stop = rows.stop.replace(" ", "")
    plain = {length.replace(" ", "") for length in lengths}
    return stop in plain or _stands_for(stop, splices, loop) in plain


def _stands_for(name: str, splices: Splices, loop: ast.stmt) -> str:
    """The one value that a name is given in its block or one around, above the loop."""
    block, around = block_of(splices.tree, loop.lineno)
    scope: ast.AST = next((node for node in reversed(around) if isinstance(node, _BLOCKS)), splices.tree)
    bound = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name]
    stores = [node for node in bound if not isinstance(node.ctx, ast.Load)]
    parent = splices.parent(stores[0]) if len(stores) == 1 else None
    if isinstance(parent, ast.Assign) and parent.lineno < loop.lineno and parent in block:
        if parent.targets == [stores[0]]:
            return splices.of(parent.value).replace(" ", "")
    elif isinstance(parent, ast.Tuple) and isinstance(holder := splices.parent(parent), ast.Assign):
        value = holder.value
        shape = isinstance(value, ast.Attribute) and value.attr == "shape"
        if holder in block and shape and parent.elts[0] is stores[0]:
            return f"{splices.of(value)}[0]".replace(" ", "")
    return ""
