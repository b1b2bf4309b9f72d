"""The source of a subject with all that it leans on, as text that can be pasted into a script.

Code is included where its source can be had: the class or function itself, and the classes, functions, imports and
plain values among its globals and in what it closes over. What is installed is imported; what can be neither (a
tensor among the globals) makes the script import the subject by name instead. Nothing is executed here.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
import sys
import textwrap
import types
from typing import Any

import torch

from gradwright.checking.counterexample.literals import NoLiteral, literal
from gradwright.ground.installed import is_installed


class NoSource(Exception):
    """There is no text that gives this object; the message says of what, and why."""


class Definitions:
    """Lines that define names, each once, in an order in which they run."""

    def __init__(self) -> None:
        self.imports: list[str] = []
        self.blocks: list[str] = []
        self._known: dict[str, Any] = {"torch": torch}

    def text(self) -> str:
        return "\n".join([*dict.fromkeys(self.imports), *(["", ""] if self.blocks else []), "\n\n\n".join(self.blocks)])

    def name_of(self, value: Any, name: str | None = None) -> str:
        """A name for a class or function, defined (or imported) above. Raises: NoSource."""
        name = name or value.__name__
        self.define(name, value)
        return name

    def define(self, name: str, value: Any) -> None:
        """Make ``name`` stand for ``value``. Raises: NoSource."""
        if name in self._known:
            if self._known[name] is not value and not _same_plain(self._known[name], value):
                raise NoSource(f"two different things are called {name}")
            return
        self._known[name] = value
        if isinstance(value, types.ModuleType):
            plain = value.__name__ == name
            if not _is_installed(value.__name__):
                raise NoSource(f"the module {value.__name__} is the user's own")
            self.imports.append(f"import {name}" if plain else _module_as(value.__name__, name))
            return
        home = getattr(value, "__module__", None)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or callable(value):
            if home and _is_installed(home) and _is_found(home, value):
                own = value.__qualname__
                self.imports.append(f"from {home} import {own}" + ("" if own == name else f" as {name}"))
                return
            self._include(name, value)
            return
        if callable(getattr(torch, name, None)) and getattr(torch, name) is value:
            self.imports.append(f"from torch import {name}")
            return
        if isinstance(value, torch.Tensor) and value.numel() > 256:
            raise NoSource(f"{name} is a large tensor")
        try:
            self.blocks.append(f"{name} = {literal(value)}")
        except NoLiteral as error:
            raise NoSource(f"{name} is a {error}") from None

    def _include(self, name: str, value: Any) -> None:
        target = inspect.unwrap(value) if callable(value) else value
        try:
            text = textwrap.dedent(inspect.getsource(target))
        except (OSError, TypeError):
            raise NoSource(f"the source of {name} can't be had") from None
        tree: ast.AST
        if getattr(target, "__name__", "") == "<lambda>":
            tree, text = _lambda(text, target, name)
        else:
            tree, defined = _definition(text, name)
            if defined != name:
                text += f"\n\n{name} = {defined}"
        scope = _scope_of(target)
        for word in _names(tree):
            if word in scope and word != getattr(target, "__name__", name) and not hasattr(builtins, word):
                self.define(word, scope[word])
        self.blocks.append(text.strip())


def _definition(text: str, name: str) -> tuple[ast.AST, str]:
    """The class or function that these lines define, and its name there. Raises: NoSource."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        body = []
    if not body or not isinstance(body[0], (ast.ClassDef, ast.FunctionDef)):
        raise NoSource(f"the source of {name} can't be had")
    return body[0], body[0].name


def _module_as(module: str, name: str) -> str:
    parent, _, own = module.rpartition(".")
    return f"from {parent} import {own}" if own == name else f"import {module} as {name}"


def _same_plain(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, (int, float, str, bool)) and one == other


def _is_installed(module: str) -> bool:
    """Is it part of Python, or of a package that is installed (not of the user's own tree)?"""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names and root != "__main__":
        return True
    path = getattr(sys.modules.get(root), "__file__", None)
    return path is not None and is_installed(os.path.realpath(path))


def _is_found(module: str, value: Any) -> bool:
    return getattr(sys.modules.get(module), getattr(value, "__qualname__", ""), None) is value


def _scope_of(target: Any) -> dict[str, Any]:
    """What the names in a class's or function's source stand for."""
    scope: dict[str, Any] = dict(vars(sys.modules.get(target.__module__, builtins)))
    members = list(vars(target).values()) if isinstance(target, type) else [target]
    for member in members:
        function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        if not isinstance(function, types.FunctionType):
            continue
        scope |= function.__globals__
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                scope[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    if isinstance(target, type):
        scope |= {base.__name__: base for base in target.__bases__}
        scope.pop("__class__", None)
    return scope


def _names(tree: ast.AST) -> list[str]:
    """Every name that is read, in order, without those that are bound inside."""
    inner = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    inner |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return [name for name in dict.fromkeys(read) if name not in inner]


def _lambda(text: str, target: Any, name: str) -> tuple[ast.AST, str]:
    """The lambda expression in these lines that ``target`` was made of, as an assignment. Raises: NoSource."""
    found: dict[str, ast.AST] = {}
    for match in re.finditer(r"\blambda\b", text):
        for stop in range(len(text), match.end(), -1):
            piece = text[match.start() : stop].strip()
            try:
                tree = ast.parse(f"({piece}\n)", mode="eval")
            except (SyntaxError, ValueError):
                continue
            if isinstance(tree.body, ast.Lambda) and _is_of(tree, target):
                found[ast.unparse(tree.body)] = tree
            if isinstance(tree.body, ast.Lambda):
                break
    if len(found) != 1:
        raise NoSource(f"the source of {name} can't be told from others in its line")
    ((shown, one),) = found.items()
    return one, f"{name} = {shown}"


def _is_of(tree: ast.Expression, target: Any) -> bool:
    """Would this expression make a function with the constants, arguments and names of ``target``?"""
    made = next(const for const in compile(tree, "<lambda>", "eval").co_consts if isinstance(const, types.CodeType))
    return _traits(made) == _traits(target.__code__)


def _traits(code: types.CodeType) -> tuple[Any, ...]:
    plain = [repr(const) for const in code.co_consts if not isinstance(const, types.CodeType)]
    return plain, code.co_argcount, set(code.co_varnames), {*code.co_names, *code.co_freevars}
