"""The backward that returned too many gradients, too few, or one of the wrong shape: its class, and its return."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch

from gradwright.doctor.observe.errors.scene import Clues
from gradwright.doctor.observe.errors.spots import own_nodes, parsed, place_of, subclasses, text_of
from gradwright.doctor.source.places import definition

_NAMED = re.compile(
    r"[Ff]unction '?(?P<name>[^\s']+?)(?:Backward\d*)?'? returned an? "
    r"(?:incorrect number|invalid (?:number|gradient)|gradient different)"
)
_COUNTS = re.compile(r"expected (\d+),(?: but)? got (\d+)")
_INDEX = re.compile(r"invalid gradient at index (\d+)")
_POSITION = re.compile(r"different than None at position (\d+)")  # counted from 1


def find_return(
    message: str, clues: Clues, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> None:
    """Name the Function, what its forward takes and its backward returns; the cause is the return, or its element."""
    named = _NAMED.search(message)
    if named is None:
        return
    node_name = named["name"]
    function = function_named(node_name, is_user_file)
    if function is None:
        clues.add("node", node_name)
        return
    clues.add("function", function.__qualname__.replace("<locals>.", ""))
    clues.add("defined", definition(function))
    names = _forward_names(function)
    written = backward_of(function)
    if written is None:
        clues.add("inputs", ", ".join(names))
        return
    file, body = written
    returns = [node.value for node in own_nodes(body) if isinstance(node, ast.Return) and node.value is not None]
    index, counts = _INDEX.search(message), _COUNTS.search(message)
    if counts is not None:
        expected, returned = int(counts[1]), int(counts[2])
        if len(names) == expected:
            clues.add("inputs", ", ".join(names))
        candidates = [value for value in returns if _length(value) == returned]
        blamed: ast.AST = candidates[0] if len(candidates) == 1 else returns[0] if len(returns) == 1 else body
        clues.add("returns", text_of(blamed) if blamed is not body else "")
    else:
        position = _POSITION.search(message)
        place = int(position[1]) - 1 if position else int(index[1]) if index else 0
        clues.add("input", names[place] if place < len(names) else "")
        elements = [element for value in returns if (element := _element(value, place)) is not None]
        blamed = elements[0] if len(elements) == 1 else returns[0] if len(returns) == 1 else body
        clues.add("returns", text_of(blamed) if blamed is not body else "")
    at = place_of(blamed, file, relative(file))
    clues.cause = at if blamed is not body else type(at)(at.path, at.line, at.column)


def backward_of(cls: type) -> tuple[str, ast.FunctionDef] | None:
    """The file of a Function's backward, and its text; ``None`` where there is none to read."""
    backward = _plain(cls, "backward") or _plain(cls, "vjp")
    body = None if backward is None else _text_of_function(backward)
    return None if body is None else (backward.__code__.co_filename, body)


def function_named(name: str, is_user_file: Callable[[str], bool]) -> type | None:
    """The Function class that a node's name speaks of; the user's before a library's; ``None`` if two fit."""
    fitting = [cls for cls in subclasses(torch.autograd.Function) if cls.__name__ == name]
    users = [cls for cls in fitting if is_user_file(_file(cls))]
    alive = users or [cls for cls in fitting if not cls.__module__.startswith("torch.")]
    # A class made again and again by one `class` statement (in a function or a notebook cell) is one Function.
    return alive[-1] if len({(_file(cls), _first_line(cls)) for cls in alive}) == 1 else None


def _plain(cls: type, name: str) -> Any:
    """The Python function behind a static method, below decorators such as ``once_differentiable``."""
    for owner in cls.__mro__:
        if owner.__module__.startswith("torch."):
            return None
        if name in owner.__dict__:
            found = inspect.unwrap(getattr(owner.__dict__[name], "__func__", owner.__dict__[name]))
            return found if hasattr(found, "__code__") else None
    return None


def _file(cls: type) -> str:
    code = getattr(_plain(cls, "forward"), "__code__", None)
    return code.co_filename if code else "<unknown>"


def _first_line(cls: type) -> int:
    code = getattr(_plain(cls, "forward"), "__code__", None)
    return code.co_firstlineno if code else 0


def _forward_names(cls: type) -> list[str]:
    """Names of the forward's inputs; none where it takes ``*args``."""
    forward = _plain(cls, "forward")
    if forward is None:
        return []
    kinds = inspect.Parameter
    parameters = list(inspect.signature(forward).parameters.values())
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters):
        return []
    return [parameter.name for parameter in parameters][0 if _plain(cls, "setup_context") else 1 :]


def _text_of_function(function: Any) -> ast.FunctionDef | None:
    tree = parsed(function.__code__.co_filename)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name == function.__code__.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= function.__code__.co_firstlineno <= node.lineno:
                return node
    return None


def _length(value: ast.expr) -> int | None:
    """How many gradients an expression returns, ``None`` if the text does not say. A list is one: torch rejects it."""
    if isinstance(value, ast.Tuple):
        return None if any(isinstance(item, ast.Starred) for item in value.elts) else len(value.elts)
    by_name = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return None if by_name else 1  # what a function of the user's, or `tuple`, returns is not in the text


def _element(value: ast.expr, index: int) -> ast.expr | None:
    if isinstance(value, ast.Tuple):
        fixed = not any(isinstance(item, ast.Starred) for item in value.elts)
        return value.elts[index] if fixed and index < len(value.elts) else None
    return value if index == 0 and not isinstance(value, (ast.List, ast.Call)) else None
