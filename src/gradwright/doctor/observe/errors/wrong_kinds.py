"""The backward that returned what is no tensor: the engine does not say whose it is, the graph and the text do."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from gradwright.doctor.observe.errors.returns import backward_of
from gradwright.doctor.observe.errors.scene import Clues, Scene
from gradwright.doctor.observe.errors.spots import own_nodes, place_of, text_of
from gradwright.doctor.source.places import definition
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.nodes import forward_class

_GOT = re.compile(r"or None \(got ([\w.]+)\)")
_MOST_NODES = 50_000
_NUMBERS = {"float": ("item", "float", "sum"), "int": ("item", "int", "len"), "bool": ("bool",)}


def find_wrong_kind(
    scene: Scene, clues: Clues, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> None:
    """Of the Functions in the graph, the only one of the user's, or the only one whose text returns such a thing."""
    found = _GOT.search(scene.message)
    kind = found[1] if found else "complex"
    written = {}
    for node in graph_of(scene.outputs(), most=_MOST_NODES):
        cls = forward_class(node)
        text = backward_of(cls) if isinstance(cls, type) else None
        if isinstance(cls, type) and text is not None and is_user_file(text[0]):
            written[cls] = text
    blamed = {cls: elements for cls, (_, body) in written.items() if (elements := list(_of_kind(body, kind)))}
    suspects = list(blamed if len(blamed) == 1 else written)
    if len(suspects) != 1:
        return
    (function,) = suspects
    file, body = written[function]
    elements = blamed.get(function) or _returned(body)
    clues.add("function", function.__qualname__.replace("<locals>.", ""))
    clues.add("defined", definition(function))
    if elements:
        clues.add("returns", text_of(elements[0]) if len(elements) == 1 else "")
    clues.cause = place_of(elements[0], file, relative(file)) if elements else None


def _returned(body: ast.FunctionDef) -> list[ast.expr]:
    return [node.value for node in own_nodes(body) if isinstance(node, ast.Return) and node.value is not None]


def _of_kind(body: ast.FunctionDef, kind: str) -> Iterator[ast.expr]:
    """The returned values whose text shows that they are of ``kind``, or of a name that was given such a value."""
    bound = {
        node.targets[0].id: node.value
        for node in own_nodes(body)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    for value in _returned(body):
        for element in value.elts if isinstance(value, ast.Tuple) else [value]:
            meant = bound.get(element.id, element) if isinstance(element, ast.Name) else element
            if _is_of_kind(meant, kind):
                yield element


def _is_of_kind(node: ast.expr, kind: str) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value).__name__ == kind
    called = text_of(node.func).split(".") if isinstance(node, ast.Call) else [""]
    if kind in ("list", "tuple", "dict"):
        made = {"list": (ast.List, ast.ListComp), "tuple": (ast.Tuple,), "dict": (ast.Dict, ast.DictComp)}[kind]
        return isinstance(node, made) or called == [kind]
    if kind == "numpy.ndarray":
        return called[-1] == "numpy" or called[0] in ("np", "numpy")
    return called[-1] in _NUMBERS.get(kind, ()) and (called[-1] == "item" or len(called) == 1)
