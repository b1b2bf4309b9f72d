"""Spots: frames of the user's in a traceback, with the text that stands there. Names are looked up, never evaluated."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import characters, location_in, text_of_file

Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LONGEST_FILE = 2_000_000  # characters; generated files beyond this are not parsed
_LONGEST_WALK = 200_000  # frames of a traceback; a recursion limit raised to millions must not hold the report up


@dataclass(frozen=True)
class Spot:
    """One frame of the user's: where it stood, to the column, and the tree of its file (``None`` if unreadable)."""

    frame: FrameType
    location: Location
    tree: ast.Module | None

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename

    @functools.cached_property
    def node(self) -> ast.AST | None:
        """The smallest expression or statement that spans the location."""
        return node_at(self.tree, self.file, self.location) if self.tree else None

    @functools.cached_property
    def scope(self) -> Scope | None:
        """The function around the spot, or the module."""
        return scope_at(self.tree, self.location.line) if self.tree else None

    def line_text(self) -> str:
        return linecache.getline(self.file, self.location.line).strip()

    def at(self, node: ast.AST) -> Location:
        """The place of a node of this file's tree."""
        return place_of(node, self.file, self.location.path)

    def value(self, node: ast.AST | None) -> Any:
        """What a name or a chain of attributes stands for, ``None`` if that needs running code of the user's."""
        if isinstance(node, ast.Name):
            for names in (self.frame.f_locals, self.frame.f_globals, vars(builtins)):
                if node.id in names:
                    return names[node.id]
        if isinstance(node, ast.Attribute):
            return attribute(self.value(node.value), node.attr)
        return None

    def tensor(self, node: ast.AST | None) -> Tensor | None:
        found = self.value(node)
        return found if isinstance(found, Tensor) else None

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors among the frame's variables, by name."""
        for name, value in list(self.frame.f_locals.items()):
            if isinstance(value, Tensor):
                yield name, value


def attribute(owner: Any, name: str) -> Any:
    """``owner.name`` where that is stored: in the instance, among a module's parameters, as a method of its class."""
    if isinstance(owner, Tensor):
        return owner.grad if name == "grad" and owner.is_leaf else owner.detach() if name == "data" else None
    try:
        fields = object.__getattribute__(owner, "__dict__")
    except Exception:
        return None
    for names in (fields, *(fields.get(kind) or {} for kind in ("_parameters", "_buffers", "_modules"))):
        if isinstance(names, dict) and name in names:
            return names[name]
    for cls in type(owner).__mro__:
        if name in cls.__dict__:
            method = cls.__dict__[name]
            method = method.__func__ if isinstance(method, (staticmethod, classmethod)) else method
            return method if isinstance(method, FunctionType) else None  # a property would run code
    return None


def spots(
    trace: TracebackType | None, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> list[Spot]:
    """The user's frames of a traceback, outermost first; of a very long one, the last 50."""
    found: list[TracebackType] = []
    for entry in walk(trace):
        if is_user_file(entry.tb_frame.f_code.co_filename):
            found.append(entry)
            if len(found) > 100:
                del found[:50]
    return [_spot(entry, relative) for entry in found[-50:]]


def walk(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    for _ in range(_LONGEST_WALK):
        if trace is None:
            return
        yield trace
        trace = trace.tb_next


def _spot(entry: TracebackType, relative: Callable[[str], str]) -> Spot:
    code = entry.tb_frame.f_code
    at = location_in(code, entry.tb_lasti, entry.tb_lineno)
    return Spot(entry.tb_frame, replace(at, path=relative(code.co_filename)), parsed(code.co_filename))


@functools.lru_cache(maxsize=32)
def parsed(path: str) -> ast.Module | None:
    text = text_of_file(path)
    if not text or len(text) > _LONGEST_FILE:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def place_of(node: ast.AST, file: str, path: str) -> Location:
    first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # expressions and statements
    start, end = node.col_offset, node.end_col_offset or 0  # type: ignore[attr-defined]  # have both by contract
    return Location(path, first, characters(file, first, start) + 1, last, characters(file, last, end) + 1)


def node_at(tree: ast.Module, file: str, location: Location) -> ast.AST | None:
    """The smallest node whose text ends where the location ends and covers its start.

    Python 3.11 gives a call of a method at the end of a chain over several lines the position of the method's name, so
    the start is only asked to be covered.
    """
    if not location.end_line:
        return None
    best = None
    for node in ast.walk(tree):
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno != location.end_line:
            continue
        spans = place_of(node, file, location.path)
        if spans.end_column != location.end_column or (spans.line, spans.column) > (location.line, location.column):
            continue
        if best is None or (spans.line, spans.column) >= (best.line, best.column):
            best, found = spans, node
    return found if best else None


def scope_at(tree: ast.Module, line: int) -> Scope:
    scope: Scope = tree
    for node in ast.walk(tree):  # outer before inner
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0):
            scope = node
    return scope


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module in the order of the text, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, _SCOPES):
            continue
        yield child
        yield from own_nodes(child)


def assignments(scope: ast.AST, name: str) -> Iterator[tuple[ast.stmt | ast.NamedExpr, ast.expr]]:
    """Every statement of the scope that binds ``name``, with the expression it is bound to."""
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets = [node.target]
        else:
            continue
        flat = [item for target in targets for item in (getattr(target, "elts", None) or [target])]
        if node.value is not None and any(isinstance(item, ast.Name) and item.id == name for item in flat):
            yield node, node.value


def text_of(node: ast.AST | None, longest: int = 60) -> str:
    """The expression on one line; the middle of a long one left out."""
    if node is None:
        return ""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= longest else text[: longest - 15] + " ... " + text[-10:]


def shape_of(tensor: Tensor) -> str:
    """``[64, 3]``; "?" for what has no plain shape (nested)."""
    try:
        return str(list(tensor.shape))
    except Exception:
        return "[?]"


def spec_of(name: str, tensor: Tensor) -> str:
    """``loss float32[64]``, with what matters to autograd beside it. No values."""
    marks = []
    try:
        if tensor.requires_grad:
            marks.append("requires grad" if tensor.is_leaf else "has a graph")
        if tensor.device.type != "cpu":
            marks.append(str(tensor.device))
    except Exception:
        pass
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{name} {kind}{shape_of(tensor)}" + (f" ({', '.join(marks)})" if marks else "")


def subclasses(cls: type) -> Iterator[type]:
    """Every class derived from ``cls``, each once."""
    seen: set[type] = set()
    waiting = [cls]
    while waiting:
        children: list[type] = type.__subclasses__(waiting.pop())
        for child in children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def is_inplace_module(module: Any) -> bool:
    return isinstance(module, torch.nn.Module) and module.__dict__.get("inplace") is True
