"""Locators: for each kind of autograd error, what the frames, the text and the living graph tell about its cause."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gradwright.doctor.observe.errors.cuts import body_of, find_cuts
from gradwright.doctor.observe.errors.reentry import find_reentry
from gradwright.doctor.observe.errors.returns import find_return
from gradwright.doctor.observe.errors.scene import Clues, Scene, reached
from gradwright.doctor.observe.errors.spots import Spot, assignments, attribute, own_nodes, shape_of, text_of, walk
from gradwright.doctor.observe.errors.transformed import find_transformed
from gradwright.doctor.observe.errors.writers import find_writers
from gradwright.doctor.observe.errors.wrong_kinds import find_wrong_kind

_RETURNED = (
    "incorrect number of gradients",
    "invalid number of gradients",
    "invalid gradient at index",
    "a gradient different than None",
)
_TRANSFORMED = (
    "setup_context",
    "tried to vmap over",
    "the jvp function for custom",
    "no autograd formula was registered",
)


def find_clues(scene: Scene, is_user_file: Callable[[str], bool], relative: Callable[[str], str]) -> Clues:
    """Run the locators that fit the message. One that fails is left out: what it found so far stays."""
    clues = Clues()
    if scene.spot is not None:
        _attempt(lambda: clues.add("expression", text_of(scene.spot.node if scene.spot else None, 80)))
    message = scene.message
    if "implicitly created only for" in message:
        _attempt(lambda: _differentiated(scene, clues, _refused(scene)))
    if found := re.search(r"element (\d+) of tensors does not require grad", message):
        index = int(found[1])
        _attempt(lambda: _differentiated(scene, clues, index))
        _attempt(lambda: find_cuts(scene, clues, index))
    if "modified by an inplace operation" in message:
        _attempt(lambda: find_writers(scene, clues))
    if "backward through the graph a second time" in message:
        _attempt(lambda: find_reentry(scene, clues))
    if any(words in message for words in _RETURNED):
        _attempt(lambda: find_return(message, clues, is_user_file, relative))
    if "or None (got " in message or "input_is_complex == grad_is_complex" in message:
        _attempt(lambda: find_wrong_kind(scene, clues, is_user_file, relative))
    if "differentiated Tensor" in message or "differentiated Variable" in message:
        _attempt(lambda: _unused(scene, clues))
    if "leaf Variable that requires grad" in message or "modified inplace" in message:
        _attempt(lambda: _written(scene, clues))
    if "operator, " in message and "bool tensor" in message:
        _attempt(lambda: _mask(scene, clues))
    if "Legacy autograd function" in message:
        _attempt(lambda: _legacy(scene, clues))
    if any(words in message for words in _TRANSFORMED):
        _attempt(lambda: find_transformed(scene, clues, is_user_file, relative))
    if "Can't call numpy()" in message:
        _attempt(lambda: _to_numpy(scene, clues))
    return clues


def _attempt(locator: Callable[[], None]) -> None:
    try:
        locator()
    except Exception:  # user objects may raise anything from anywhere; a report without a clue is still a report
        pass


def _refused(scene: Scene) -> int:
    """Which of the differentiated tensors is no scalar."""
    return next((i for i, tensor in enumerate(scene.outputs()) if tensor.requires_grad and tensor.numel() != 1), 0)


def _differentiated(scene: Scene, clues: Clues, index: int) -> None:
    outputs = scene.outputs()
    tensor = outputs[index] if index < len(outputs) else None
    node = scene.output_node(index)
    clues.add("differentiated", scene.name_of(tensor, node, ""))
    clues.add("api", scene.api)
    if tensor is not None:
        clues.add("shape", shape_of(tensor))
        clues.add("dtype", str(tensor.dtype).removeprefix("torch."))
    spot = scene.gradient_call
    if spot is None or spot.scope is None or node is None:
        return
    for expression in _behind(spot, node):
        for call in ast.walk(expression):
            if isinstance(call, ast.Call) and _unreduced(spot, call):
                clues.add("unreduced", f"{spot.at(call)}: `{text_of(call)}`")


def _behind(spot: Spot, node: ast.expr) -> Iterator[ast.expr]:
    """The expression, what the names in it were assigned, and what the user's own functions in these return."""
    parts = [node]
    for name in [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]:
        parts += [value for _, value in assignments(spot.scope, name)] if spot.scope else []
    for part in parts:
        yield part
        for call in ast.walk(part):
            body = body_of(spot, call) if isinstance(call, ast.Call) else None
            for inner in own_nodes(body) if body else ():
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield inner.value


def _unreduced(spot: Spot, call: ast.Call) -> bool:
    """``reduction="none"`` in the call, or on the loss module that is called."""
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Constant) and (keyword.arg, keyword.value.value) in _UNREDUCED:
            return True
    called = spot.value(call.func)
    return isinstance(called, torch.nn.Module) and attribute(called, "reduction") == "none"


_UNREDUCED = (("reduction", "none"), ("reduce", False))


def _unused(scene: Scene, clues: Clues) -> None:
    """Which tensors the outputs do not depend on, by walking the graph from them."""
    outputs, inputs = scene.outputs(), scene.inputs()
    for index, tensor in enumerate(outputs):
        clues.add("output", scene.name_of(tensor, scene.output_node(index), ""))
    named = re.search(r"Tensor at index (\d+)", scene.message)
    untracked = "does not require grad" in scene.message
    if named is not None:
        blamed = [int(named[1])]
    elif untracked:
        blamed = [index for index, tensor in enumerate(inputs) if not tensor.requires_grad]
    else:
        seen = reached(outputs)
        blamed = [index for index, tensor in enumerate(inputs) if not _is_reached(tensor, seen)]
    for index in blamed[:8]:
        tensor_or_none = inputs[index] if index < len(inputs) else None
        node = scene.input_node(index)
        text = scene.name_of(tensor_or_none, node, "")
        shape = f" {shape_of(tensor_or_none)}" if tensor_or_none is not None else ""
        clues.add("unused", f"`{text}`{shape} (index {index})" if text else f"input {index}{shape}")
        if isinstance(node, (ast.Subscript, ast.Call, ast.BinOp)) or (
            isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "H", "data")
        ):
            clues.add("fresh", text)


def _is_reached(tensor: Tensor, seen: dict[int, object]) -> bool:
    return (id(tensor) if tensor.grad_fn is None else id(tensor.grad_fn)) in seen


def _written(scene: Scene, clues: Clues) -> None:
    spot = scene.spot
    node = spot.node if spot else None
    if spot is None or node is None:
        return
    target: ast.AST | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, ast.Call):
        target = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
        if isinstance(node.func, ast.Attribute) and text_of(node.func.value) in ("torch", "F", "torch.nn.functional"):
            target = node.args[0] if node.args else None
    elif isinstance(node, ast.Subscript):
        target = node
    clues.add("target", text_of(target))
    while isinstance(target, ast.Subscript):
        target = target.value
    tensor = spot.tensor(target)
    if tensor is not None:
        clues.add("base", text_of(target))
        clues.add("shape", shape_of(tensor))
        clues.add("parameter", "yes" if isinstance(tensor, torch.nn.Parameter) else "")


def _mask(scene: Scene, clues: Clues) -> None:
    """The two sides of the subtraction, and which of them are masks."""
    spot = scene.spot
    node = spot.node if spot else None
    if spot is None:
        return
    sides: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        sides = [node.operand]
    elif isinstance(node, ast.AugAssign):
        sides = [node.target, node.value]
    if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and node.left.value == 1:
        clues.add("inverted", text_of(node.right))
    for side in sides:
        tensor = spot.tensor(side)
        if isinstance(side, ast.Compare) or (tensor is not None and tensor.dtype is torch.bool):
            clues.add("mask", text_of(side) + (f" {shape_of(tensor)}" if tensor is not None else ""))


def _legacy(scene: Scene, clues: Clues) -> None:
    """The class of the Function object that was called: torch's own frame holds it."""
    for entry in walk(scene.trace):
        called = entry.tb_frame.f_locals.get("self")
        if isinstance(called, torch.autograd.Function):
            clues.add("function", type(called).__qualname__.replace("<locals>.", ""))


def _to_numpy(scene: Scene, clues: Clues) -> None:
    spot = scene.spot
    node = spot.node if spot else None
    if spot is None or not isinstance(node, ast.Call):
        return
    owner: ast.AST | None = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"):
        owner = next((argument for argument in node.args if _tracked(spot.tensor(argument))), None)
    clues.add("converted", text_of(owner))
    tensor = spot.tensor(owner)
    if tensor is not None:
        clues.add("shape", shape_of(tensor))


def _tracked(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad
