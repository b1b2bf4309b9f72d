"""State that objects carry from turn to turn with its graph: ``self.hidden = self.cell(x, self.hidden)``."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from types import ModuleType

import torch
from torch import Tensor

from gradwright.doctor.observe.errors.scene import reached
from gradwright.doctor.observe.errors.spots import Spot, own_nodes

_MOST_NAMES, _MOST_MODULES = 500, 5000


def stored_state(call: Spot, seen: dict[int, object]) -> Iterator[tuple[str, ast.AST]]:
    """Attributes of the objects at hand that hold a part of the graph ``seen``, and are made from what they were.

    The name as it is reached from the frame, and the statement of the call's file that makes it anew.
    """
    graph = _inner(seen)
    for name, owner in objects_at_hand(call):
        for attribute, tensor in _tensors(owner):
            if _inner(reached((tensor,))) & graph and (statement := _carried_on(call, attribute)) is not None:
                yield f"{name}.{attribute}", statement


def _inner(nodes: dict[int, object]) -> set[int]:
    """Without leaves and what accumulates into them: every graph of a model shares these."""
    return {key for key, node in nodes.items() if not isinstance(node, Tensor) and not hasattr(node, "variable")}


def objects_at_hand(call: Spot) -> Iterator[tuple[str, object]]:
    """Objects among the frame's variables, among the globals that its function names, and the modules inside these."""
    named = {node.id for node in ast.walk(call.scope) if isinstance(node, ast.Name)} if call.scope else set()
    names = dict(itertools.islice(call.frame.f_locals.items(), _MOST_NAMES))
    names |= {name: call.frame.f_globals[name] for name in named - names.keys() if name in call.frame.f_globals}
    met: set[int] = set()
    for name, value in names.items():
        if isinstance(value, (type, ModuleType, Tensor)):
            continue
        modules = torch.nn.Module.named_modules(value) if isinstance(value, torch.nn.Module) else [("", value)]
        for path, owner in itertools.islice(modules, _MOST_MODULES):
            if id(owner) not in met:
                met.add(id(owner))
                yield (f"{name}.{path}" if path else name), owner


def _tensors(owner: object) -> Iterator[tuple[str, Tensor]]:
    """One tensor with a graph for each attribute, or buffer, that is one or holds one in a tuple or list."""
    try:
        fields = dict(object.__getattribute__(owner, "__dict__"))
    except Exception:
        return
    buffers = fields.get("_buffers")
    for attribute, held in (fields | (buffers if isinstance(buffers, dict) else {})).items():
        for tensor in held if type(held) in (tuple, list) else (held,):
            if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                yield attribute, tensor
                break


def _carried_on(call: Spot, attribute: str) -> ast.AST | None:
    """The statement that sets an attribute of this name where the same function has read it before, or reads it."""
    for function in ast.walk(call.tree) if call.tree else ():
        if not isinstance(function, ast.FunctionDef):
            continue
        uses = [node for node in own_nodes(function) if isinstance(node, ast.Attribute) and node.attr == attribute]
        read = min((node.lineno for node in uses if isinstance(node.ctx, ast.Load)), default=None)
        for node in own_nodes(function):
            if isinstance(node, ast.Assign) and read is not None and read <= node.lineno:
                inside = {id(part) for target in node.targets for part in ast.walk(target)}
                if any(id(use) in inside and isinstance(use.ctx, ast.Store) for use in uses):
                    return node
    return None
