"""Who wrote into a tensor that the backward needed: lines of the user's that change one of this shape in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import torch
from torch import Tensor

from gradwright.doctor.observe.scene import Clues, Scene
from gradwright.doctor.observe.spots import Spot, attribute, is_inplace_module, own_nodes, text_of

_SHAPE = re.compile(r"inplace operation: \[[\w.]+ \[(?P<sizes>[\d, ]*)\]\]")
_VERSION = re.compile(r"is at version (\d+)")
_INPLACE_METHOD = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]_")
_NO_WRITE = frozenset({"requires_grad_", "retain_grad_", "share_memory_", "rename_", "detach_", "train_", "eval_"})
_OPTIMIZER = torch.optim.Optimizer


def find_writers(scene: Scene, clues: Clues) -> None:
    """Candidates only: the text shows that they write, the frames the shape; a version counter knows no author."""
    sizes = _SHAPE.search(scene.message)
    shape = tuple(int(size) for size in sizes["sizes"].split(",") if size.strip()) if sizes else None
    if shape is not None:
        clues.add("shape", list(shape))
    call = scene.gradient_call
    if call is not None:
        clues.add("gradient_call", f"{call.location}: `{text_of(call.node) or call.line_text()}`")
        if scene.spot is not None and scene.spot is not call:
            clues.add("read_at", f"{scene.spot.location}: `{scene.spot.line_text()}`")
            clues.cause = call.location
    written_to: list[tuple[str, bool]] = []
    version = _VERSION.search(scene.message)
    for spot in {id(spot.scope): spot for spot in scene.spots if spot.scope is not None}.values():
        for node, target in _writes(spot.scope):
            written = spot.tensor(target)
            if written is not None and shape is not None and tuple(written.shape) == shape:
                at_version = version is not None and written._version == int(version[1])
                written_to.append((f"{spot.at(node)}: `{text_of(node)}`", at_version))
        for node in own_nodes(spot.scope) if spot.scope else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                optimizer = spot.value(node.func.value)
                if shape is not None and isinstance(optimizer, _OPTIMIZER) and _steps_on(optimizer, shape):
                    clues.add("writer", f"{spot.at(node)}: `{text_of(node)}` updates a parameter of this shape")
        for name, value in list(spot.frame.f_locals.items())[:500]:
            if isinstance(value, torch.nn.Module):
                for path, module in list(torch.nn.Module.named_modules(value))[:5000]:
                    if is_inplace_module(module):
                        label = f"{name}.{path}" if path else name
                        clues.add("inplace_module", f"{label} ({type(module).__name__}, inplace=True)")
    surest = any(at_version for _, at_version in written_to)
    for writer, at_version in written_to:
        if at_version or not surest:
            clues.add("writer", writer)
    if not any(name == "writer" for name, _ in clues.found):
        _elsewhere(scene, clues)


def _writes(scope: ast.AST | None) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Statements and calls of a scope that change a tensor in place, with the expression of that tensor."""
    for node in own_nodes(scope) if scope else ():
        if isinstance(node, ast.AugAssign):
            yield node, _base(node.target)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    yield node, _base(target)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if isinstance(node.func, ast.Attribute) and _INPLACE_METHOD.fullmatch(name) and name not in _NO_WRITE:
                yield node, _base(node.func.value)
            elif node.args and any(_is_inplace(keyword) for keyword in node.keywords):
                yield node, _base(node.args[0])


def _base(node: ast.expr) -> ast.expr:
    """``y`` of ``y[0]`` and ``y.data``: writing there writes into ``y``."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in ("data", "T", "mT")):
        node = node.value
    return node


def _is_inplace(keyword: ast.keyword) -> bool:
    return keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True


def _steps_on(optimizer: torch.optim.Optimizer, shape: tuple[int, ...]) -> bool:
    """The graph may hold the parameter itself or its transpose (a Linear layer's)."""
    groups = attribute(optimizer, "param_groups") or ()
    shapes = {tuple(item.shape) for group in groups for item in group.get("params", ()) if isinstance(item, Tensor)}
    return shape in shapes or shape[::-1] in shapes


def _elsewhere(scene: Scene, clues: Clues) -> None:
    """In-place lines of other functions in the same files: their frames are gone, and with them the shapes."""
    for spot in _one_per_file(scene):
        for function in ast.walk(spot.tree) if spot.tree else ():
            if function is spot.scope or not isinstance(function, ast.FunctionDef):
                continue
            for node, _ in _writes(function):
                if not (isinstance(node, ast.AugAssign) and _counts(node)):
                    clues.add("inplace_line", f"{spot.at(node)}: `{text_of(node)}` in {function.name}")


def _counts(statement: ast.AugAssign) -> bool:
    """``n += 1``, ``total += loss.item()``, ``seen += len(batch)``: arithmetic on Python numbers."""
    value = statement.value
    if isinstance(value, ast.Constant) and isinstance(statement.op, (ast.Add, ast.Sub)):
        return True
    return any(
        isinstance(node, ast.Call) and text_of(node.func).split(".")[-1] in ("item", "len", "size", "float", "int")
        for node in ast.walk(value)
    )


def _one_per_file(scene: Scene) -> list[Spot]:
    return list({spot.file: spot for spot in scene.spots}.values())[-5:]
