"""Where a freed graph is entered again: tensors that outlive the loop's turn, and earlier gradient calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torch import Tensor

from gradwright.doctor.observe.errors.scene import Clues, Scene, reached
from gradwright.doctor.observe.errors.spots import Spot, assignments, own_nodes, text_of
from gradwright.doctor.observe.errors.stored_state import stored_state

_GRADIENTS = ("backward", "grad")


def find_reentry(scene: Scene, clues: Clues) -> None:
    """Read from the text around the gradient call, and from which variables hold a graph now."""
    call = scene.gradient_call
    if call is None or call.scope is None:
        return
    clues.add("gradient_call", f"{call.location}: `{text_of(call.node) or call.line_text()}`")
    if scene.spot is not None and scene.spot is not call:
        clues.add("read_at", f"{scene.spot.location}: `{scene.spot.line_text()}`")
        clues.cause = call.location
    loop, seen = _loop_around(call), reached(scene.outputs())
    for node in own_nodes(call.scope):
        if node is not call.node and isinstance(node, ast.Call) and _asks_gradient(node) and not _keeps_graph(node):
            clues.add("earlier_call", f"{call.at(node)}: `{text_of(node)}`")
            if node.lineno < call.location.line:
                for name in _shared(call, node, scene.outputs(), seen):
                    clues.add("shared", name)
    if loop is None:
        return
    clues.add("loop", f"{call.location.path}:{loop.lineno}")
    for name, tensor in call.tensors():
        if tensor.grad_fn is None or id(tensor.grad_fn) not in seen or not _read_in(loop, name):
            continue
        inside = [statement for statement, _ in assignments(loop, name)]
        if not inside:
            made = [call.at(statement) for statement, _ in assignments(call.scope, name)]
            clues.add("made_outside", f"`{name}` ({made[-1]})" if made else f"`{name}`")
        elif (statement := _carried(loop, name)) is not None:
            clues.add("carried", f"`{name}` ({call.at(statement)}: `{text_of(statement)}`)")
    for name, statement in stored_state(call, seen):
        clues.add("carried", f"`{name}` ({call.at(statement)}: `{text_of(statement)}`)")


def _shared(call: Spot, earlier: ast.Call, outputs: tuple[Tensor, ...], seen: dict[int, object]) -> Iterator[str]:
    """Variables that the earlier call's graph and this one's both lead through, nearest first."""
    before = call.tensor(earlier.func.value if isinstance(earlier.func, ast.Attribute) else None)
    if before is None and earlier.args:
        before = call.tensor(earlier.args[0])
    if before is None or any(before is output for output in outputs):
        return
    both = reached((before,)).keys() & seen.keys()
    order = {key: place for place, key in enumerate(seen)}
    held = [(name, tensor) for name, tensor in call.tensors() if tensor.grad_fn is not None and tensor is not before]
    yield from sorted(
        (name for name, tensor in held if id(tensor.grad_fn) in both),
        key=lambda name: order[id(dict(held)[name].grad_fn)],
    )


def _loop_around(call: Spot) -> ast.For | ast.While | None:
    """The innermost loop of the call's function that the call stands in."""
    found: ast.For | ast.While | None = None
    line = call.location.line
    for node in own_nodes(call.scope) if call.scope else ():
        if isinstance(node, (ast.For, ast.While)) and node.lineno <= line <= (node.end_lineno or 0):
            found = node
    return found


def _asks_gradient(call: ast.Call) -> bool:
    return text_of(call.func).split(".")[-1] in _GRADIENTS


def _keeps_graph(call: ast.Call) -> bool:
    return any(keyword.arg in ("retain_graph", "create_graph") for keyword in call.keywords)


def _read_in(loop: ast.AST, name: str) -> bool:
    for node in own_nodes(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return True
    return False


def _carried(loop: ast.AST, name: str) -> ast.AST | None:
    """The statement that makes a name from what it was a turn earlier: read before the loop's body first binds it."""
    first, value = min(assignments(loop, name), key=lambda pair: pair[0].lineno)
    if isinstance(first, ast.AugAssign):
        return first
    inside = set(ast.walk(value))
    reads = [n for n in own_nodes(loop) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return first if any(read.lineno < first.lineno or read in inside for read in reads) else None
