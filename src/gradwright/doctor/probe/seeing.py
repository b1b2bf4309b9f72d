"""A loop run once more, with every expression in it recorded: what the rewrites are told about values.

It runs the user's code: call it where that does no harm (a forked child), on copies.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradwright.doctor.probe.shrink import fresh
from gradwright.doctor.source.seen import Key, Seen, SeenTensor, SeenValue, key_of
from gradwright.ground.exchanged import exchanged_code
from gradwright.ground.tensors import storage_of, tensors_in

HOOK = "__gradwright_see__"
SECONDS = 2.0
MOST_OF_ONE = 64  # an expression that was the same so often is looked at no more
ITEMS = 8


class _EnoughError(BaseException):
    """The time for looking is up; the region is left where it is."""


def see(statements: Sequence[ast.stmt], path: str, names: Mapping[str, Any], globals_: Mapping[str, Any]) -> Seen:
    """What the expressions of ``statements`` are when they run on ``names``, which they may change (hand in copies).

    ``statements`` are not changed; a ``return`` among them ends the run. Expressions that come after 2 s are not seen.
    What the code raises ends the run as well: what was seen until then is returned.
    """
    watcher = _Watcher()
    body = [*_entered(), *(_recorded(statement) for statement in statements)]
    code = compile(ast.fix_missing_locations(ast.Module(_without_returns(body), [])), path, "exec", dont_inherit=True)
    with watcher.installed(), contextlib.suppress(_EnoughError, _ReturnedError, Exception):
        exec(code, {**globals_, **names, _RETURNED: _ReturnedError})  # the user's own statements, as they stand
    return watcher.seen()


def see_in_call(
    statements: Sequence[ast.stmt], tree: ast.Module, path: str, namespace: dict[str, Any], call: Callable[[], Any]
) -> Seen:
    """The same while ``call`` runs the function that holds ``statements``, a run of neighbours somewhere in ``tree``.

    ``namespace``: the globals of that function.

    For what can't be run alone: the forward and backward of a Function, on specimens.
    """
    watcher = _Watcher()
    code = compile(ast.fix_missing_locations(_with_recorded(tree, statements)), path, "exec", dont_inherit=True)
    with (
        watcher.installed(),
        exchanged_code(path, code, HOOK, [namespace]),
        contextlib.suppress(_EnoughError, Exception),
    ):
        call()
    return watcher.seen()


def call_function(function: Any, args: Sequence[Any], wanted: Sequence[bool]) -> None:
    """One forward and one backward of a Function, on copies of ``args``; ``wanted``: which require a gradient."""
    mine = fresh(tuple(args))
    for value, want in zip(mine, wanted, strict=True):
        if want:
            value.requires_grad_()
    outputs = [out for out in tensors_in(function.apply(*mine)) if out.requires_grad]
    roots = [value for value, want in zip(mine, wanted, strict=True) if want]
    if outputs and roots:
        torch.autograd.grad(outputs, roots, [torch.randn_like(out) for out in outputs], allow_unused=True)


# --- the hook --------------------------------------------------------------------------------------------------------


class _Watcher:
    """Called as ``hook(place, value)`` for every expression, ``hook.enter(variables)`` where the region begins."""

    def __init__(self) -> None:
        self.values: dict[Key, list[SeenValue]] = {}
        self.counts: dict[Key, int] = {}
        self.live_ins: dict[str, SeenValue] = {}
        self.memories: dict[int, int] = {}
        self.records_graph = False
        self.until: float | None = None

    @contextlib.contextmanager
    def installed(self) -> Any:
        setattr(builtins, HOOK, self)
        try:
            yield
        finally:
            delattr(builtins, HOOK)

    def enter(self, variables: dict[str, Any]) -> None:
        if self.until is not None:
            return  # another entry: its values are added
        self.until = time.thread_time() + SECONDS
        mine = {name: value for name, value in variables.items() if not name.startswith("__")}
        for value in (*mine.values(), *sys._getframe(1).f_globals.values()):
            for tensor in tensors_in(value):
                self.memories.setdefault(storage_of(tensor), len(self.memories) + 1)
        self.live_ins = {name: self.described(value) for name, value in mine.items()}
        self.records_graph = torch.is_grad_enabled() and any(
            tensor.requires_grad for value in mine.values() for tensor in tensors_in(value)
        )

    def __call__(self, key: Key, value: Any) -> Any:
        count = self.counts.get(key, 0)
        if count < MOST_OF_ONE or not count % 1024:
            described = self.described(value)
            found = self.values.setdefault(key, [])
            if described not in found and len(found) < MOST_OF_ONE:
                found.append(described)
            if self.until is not None and time.thread_time() > self.until:
                raise _EnoughError
        self.counts[key] = count + 1
        return value

    def seen(self) -> Seen:
        return Seen({key: tuple(found) for key, found in self.values.items()}, self.live_ins, self.records_graph)

    def described(self, value: Any, depth: int = 2) -> SeenValue:
        kind = type(value).__name__
        if isinstance(value, torch.Tensor):
            return SeenValue("Tensor" if isinstance(value, torch.nn.Parameter) else kind, self.tensor(value))
        if isinstance(value, (bool, int, float)):
            return SeenValue(kind, number=value)
        if isinstance(value, (list, tuple, dict, set)):
            items = list(value.values() if isinstance(value, dict) else value)[:ITEMS] if depth else []
            return SeenValue(kind, length=len(value), items=tuple(self.described(item, depth - 1) for item in items))
        return SeenValue(kind, dotted=_dotted(value))

    def tensor(self, value: torch.Tensor) -> SeenTensor:
        strided = value.layout is torch.strided
        return SeenTensor(
            shape=tuple(value.shape),
            stride=tuple(value.stride()) if strided else (),
            dtype=str(value.dtype).removeprefix("torch."),
            device=value.device.type,
            requires_grad=value.requires_grad,
            is_leaf=value.is_leaf,
            memory=self.memories.get(storage_of(value), 0) if strided else 0,
        )


def _dotted(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is None:
        return ""
    module = getattr(value, "__module__", None)
    if type(value).__name__ == "module":
        return str(name)
    if module is None:  # a builtin of an extension module
        module = getattr(getattr(value, "__self__", None), "__name__", None)
    return f"{module}.{name}" if isinstance(module, str) else str(name)


# --- the text with the hook in it ------------------------------------------------------------------------------------

_RETURNED = "__gradwright_returned__"


class _ReturnedError(BaseException):
    """A ``return`` was met in statements that are run alone."""


def _entered() -> list[ast.stmt]:
    return ast.parse(f"{HOOK}.enter(locals())").body


class _Recorder(ast.NodeTransformer):
    """Wraps every expression that is read in ``hook(place, expression)``, inside out."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        place = key_of(node) if isinstance(node, ast.expr) and hasattr(node, "lineno") else None
        super().generic_visit(node)
        if place is None or not _is_read(node):
            return node
        where = ast.Tuple([ast.Constant(number) for number in place], ast.Load())
        call = ast.Call(ast.Name(HOOK, ast.Load()), [where, node], [])  # type: ignore[list-item]  # an expression: it has a place
        return ast.copy_location(call, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "vars", "eval", "exec"):
            return node
        return self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node


def _is_read(node: ast.AST) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Tuple)):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.expr) and not isinstance(
        node,
        (ast.Constant, ast.Slice, ast.Starred, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.FormattedValue),
    )


def _recorded(statement: ast.stmt) -> ast.stmt:
    found = _Recorder().visit(copy.deepcopy(statement))
    assert isinstance(found, ast.stmt)
    return found


def _without_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    class Ends(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
            end = ast.Raise(ast.Name(_RETURNED, ast.Load()), None)
            first = [ast.Expr(node.value)] if node.value is not None else []
            return [ast.copy_location(one, node) for one in (*first, end)]

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
            return node

        def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
            return node

    return ast.fix_missing_locations(Ends().visit(ast.Module(body, []))).body  # type: ignore[no-any-return]  # a module's


def _with_recorded(tree: ast.Module, statements: Sequence[ast.stmt]) -> ast.Module:
    """A copy of the tree in which the statements are recorded, and their beginning is told."""
    first = key_of(statements[0])
    whole = copy.deepcopy(tree)
    for parent in ast.walk(whole):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if not isinstance(block, list):
                continue
            for at, statement in enumerate(block):
                if isinstance(statement, ast.stmt) and key_of(statement) == first:
                    inside = [_recorded(one) for one in block[at : at + len(statements)]]
                    block[at : at + len(statements)] = [*_entered(), *inside]
                    return whole
    raise LookupError("the statements stand nowhere in this tree")
