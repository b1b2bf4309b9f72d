"""Who wrote into a tensor that the backward needed: lines of the user's that change one of this shape in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import torch
from torch import Tensor

from gradwright.doctor.observe.errors.scene import Clues, Scene
from gradwright.doctor.observe.errors.spots import Spot, attribute, is_inplace_module, own_nodes, text_of
from gradwright.doctor.observe.errors.stored_state import objects_at_hand
from gradwright.ground.torch_versions.tensors import version_of

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
            if written is None or shape is None:
                continue
            at_version = version is not None and version_of(written) == int(version[1])
            # A row that was read shares the counter of the whole that is written to.
            if tuple(written.shape) == shape or (at_version and shape and tuple(written.shape)[-len(shape) :] == shape):
                written_to.append((f"{spot.at(node)}: `{text_of(node)}`", at_version))
        for node in own_nodes(spot.scope) if spot.scope else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                optimizer = spot.value(node.func.value)
                if shape is not None and isinstance(optimizer, _OPTIMIZER) and _steps_on(optimizer, shape):
                    clues.add("writer", f"{spot.at(node)}: `{text_of(node)}` updates a parameter of this shape")
    at_hand = list(objects_at_hand(call)) if call is not None else []
    for name, module in at_hand:
        if is_inplace_module(module):
            clues.add("inplace_module", f"{name} ({type(module).__name__}, inplace=True)")
    surest = any(at_version for _, at_version in written_to)
    for writer, at_version in written_to:
        if at_version or not surest:
            clues.add("writer", writer)
    if not any(name == "writer" for name, _ in clues.found):
        _elsewhere(scene, clues, _lines_of(call, at_hand))


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
            else:
                yield from ((node, _base(keyword.value)) for keyword in node.keywords if keyword.arg == "out")


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


def _elsewhere(scene: Scene, clues: Clues, called: set[tuple[str, int]]) -> None:
    """In-place lines of other functions in the same files: their frames are gone, and with them the shapes.

    Of those in ``called`` only, if any of them has such a line.
    """
    found: list[tuple[bool, str]] = []
    for spot in _one_per_file(scene):
        for function in ast.walk(spot.tree) if spot.tree else ():
            if function is spot.scope or not isinstance(function, ast.FunctionDef):
                continue
            first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
            for node, _ in _writes(function):
                if not (isinstance(node, ast.AugAssign) and _counts(node)):
                    line = f"{spot.at(node)}: `{text_of(node)}` in {function.name}"
                    found.append(((spot.file, first) in called, line))
    near = [line for is_called, line in found if is_called]
    explained = any(name == "inplace_module" for name, _ in clues.found)
    for line in near or [line for _, line in found if not explained]:
        clues.add("inplace_line", line)


def _lines_of(call: Spot | None, at_hand: list[tuple[str, object]]) -> set[tuple[str, int]]:
    """Where the functions begin that the gradient call's function may have called: by name, or as methods."""
    functions: list[object] = [method for _, owner in at_hand for method in vars(type(owner)).values()]
    if call is not None and call.scope is not None:
        functions += [call.value(node) for node in ast.walk(call.scope) if isinstance(node, ast.Name)]
    codes = [getattr(getattr(function, "__func__", function), "__code__", None) for function in functions]
    return {(code.co_filename, code.co_firstlineno) for code in codes if code is not None}


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
