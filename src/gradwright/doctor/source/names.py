"""Which names a piece of code binds and reads, scope by scope, as Python's own rules have it.

Walks keep their own stack: an expression or an ``elif`` chain may be deeper than Python's recursion limit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Event:
    """A name, and what happens to it: ``captured`` is a read in a nested function, which runs who knows when."""

    kind: Literal["bind", "read", "captured", "declare", "delete"]
    name: str
    position: Position


def parameters(node: FunctionNode) -> list[str]:
    """The names of a function's parameters, in order."""
    args = node.args
    plain = [*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs]
    return [arg.arg for arg in plain] + ([args.kwarg.arg] if args.kwarg else [])


def events(nodes: Iterable[ast.AST], *, into_functions: bool = True) -> Iterator[Event]:
    """What happens to names when ``nodes`` run in one scope, in no particular order.

    Names that belong to a nested scope (parameters, locals, comprehension targets) do not appear.
    """
    # mode: 0 the scope itself, 1 a class body or comprehension in it, 2 a nested function
    stack: list[tuple[ast.AST, frozenset[str], int]] = [(node, frozenset(), 0) for node in nodes]
    while stack:
        node, hidden, mode = stack.pop()
        position = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                if node.id not in hidden:
                    yield Event("captured" if mode == 2 else "read", node.id, position)
            elif mode == 0:
                yield Event("bind" if isinstance(node.ctx, ast.Store) else "delete", node.id, position)
        elif isinstance(node, ast.NamedExpr):
            if mode < 2:
                yield Event("bind", node.target.id, position)
            stack.append((node.value, hidden, mode))
        elif isinstance(node, _FUNCTIONS):
            if mode == 0 and not isinstance(node, ast.Lambda):
                yield Event("bind", node.name, position)
            outside, inside = _function_parts(node)
            stack.extend((part, hidden, mode) for part in outside)
            if into_functions:
                local = hidden | locals_of(node)
                stack.extend((part, local, 2) for part in inside)
        elif isinstance(node, ast.ClassDef):
            if mode == 0:
                yield Event("bind", node.name, position)
            stack.extend((part, hidden, mode) for part in [*node.decorator_list, *node.bases, *node.keywords])
            if into_functions:
                stack.extend((part, hidden, max(mode, 1)) for part in node.body)
        elif isinstance(node, _COMPREHENSIONS):
            first, rest, targets = _comprehension_parts(node)
            stack.append((first, hidden, mode))
            stack.extend((part, hidden | targets, max(mode, 1)) for part in rest)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            if mode == 0:
                for name in node.names:
                    yield Event("declare", name, position)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if mode == 0:
                for alias in node.names:
                    yield Event("bind", alias.asname or alias.name.split(".")[0], position)
        else:
            bound = _name_of(node)
            if mode == 0 and bound:
                yield Event("bind", bound, position)
            stack.extend((child, hidden, mode) for child in ast.iter_child_nodes(node))


def _name_of(node: ast.AST) -> str | None:
    """The name that an exception handler or a pattern binds."""
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def locals_of(node: FunctionNode) -> frozenset[str]:
    """The names that belong to a function: its parameters and what its body binds."""
    names, declared = set(parameters(node)), set()
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for event in events(body, into_functions=False):
        if event.kind == "declare":
            declared.add(event.name)
        elif event.kind in ("bind", "delete"):
            names.add(event.name)
    return frozenset(names - declared)


def _function_parts(node: FunctionNode) -> tuple[list[ast.AST], Sequence[ast.AST]]:
    """What runs where the function is defined, and what runs when it is called."""
    outside: list[ast.AST] = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    if isinstance(node, ast.Lambda):
        return outside, [node.body]
    return [*outside, *node.decorator_list], node.body


def _comprehension_parts(node: Comprehension) -> tuple[ast.AST, list[ast.AST], frozenset[str]]:
    first, *others = node.generators
    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    rest: list[ast.AST] = [*elements, *first.ifs, *others]
    targets = frozenset(
        inner.id
        for generator in node.generators
        for inner in ast.walk(generator.target)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    )
    return first.iter, rest, targets


@dataclass
class Scope:
    """The names of a module, a class body or a function, with the positions where they are bound and read."""

    binds: dict[str, list[Position]] = field(default_factory=dict)
    reads: dict[str, list[Position]] = field(default_factory=dict)
    captured: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
        scope = cls()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope.binds = {name: [(node.lineno, 0)] for name in parameters(node)}
        for event in events(node.body, into_functions=not isinstance(node, ast.Module)):
            if event.kind == "bind":
                scope.binds.setdefault(event.name, []).append(event.position)
            elif event.kind == "read":
                scope.reads.setdefault(event.name, []).append(event.position)
            elif event.kind == "captured":
                scope.captured.add(event.name)
            elif event.kind == "declare":
                scope.declared.add(event.name)
        for name in scope.declared:
            scope.binds.pop(name, None)
        return scope


def exposed(statements: Sequence[ast.stmt], bound: Iterable[str] = ()) -> set[str]:
    """Names that ``statements`` read, or may read, before they have bound them themselves.

    >>> sorted(exposed(ast.parse("for i in range(n):\\n    t = x[i]\\n    s = s + t").body))
    ['n', 'range', 's', 'x']
    """
    flow = _Flow()
    flow.block(statements, set(bound))
    return flow.exposed


class _Flow:
    """One walk in the order of evaluation, with the names that are surely bound by now."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()

    def block(self, statements: Sequence[ast.stmt], bound: set[str]) -> set[str]:
        """Returns the names surely bound after the statements; everything is, where they never end."""
        for statement in statements:
            bound = self.statement(statement, bound)
            if isinstance(statement, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                return _Everything()
        return bound

    def statement(self, node: ast.stmt, bound: set[str]) -> set[str]:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            bound = self.parts([node.iter], bound)
            self.block(node.body, self.parts([node.target], bound))
            self.block(node.orelse, bound)
            return bound
        if isinstance(node, ast.While):
            bound = self.parts([node.test], bound)
            self.block(node.body, bound)
            self.block(node.orelse, bound)
            return bound
        if isinstance(node, ast.If):
            return self.branches(node, bound)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self.block(node.body, self.parts(list(node.items), bound))
        if isinstance(node, (ast.Try, ast.TryStar)):
            ends = [self.block(node.orelse, self.block(node.body, bound))]
            ends += [self.block(handler.body, self.handler(handler, bound)) for handler in node.handlers]
            return self.block(node.finalbody, bound) | _common(ends)
        if isinstance(node, ast.Match):
            bound = self.parts([node.subject], bound)
            ends = [self.block(case.body, self.parts([case.pattern, case.guard], bound)) for case in node.cases]
            return _common([*ends, bound])
        if isinstance(node, ast.Assign):
            return self.parts(list(node.targets), self.parts([node.value], bound))
        if isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self.read(node.target.id, bound)
            return self.parts([node.target], self.parts([node.value], bound))
        if isinstance(node, ast.AnnAssign):
            return self.parts([node.target], self.parts([node.value], bound)) if node.value else bound
        return self.parts([node], bound)

    def branches(self, node: ast.If, bound: set[str]) -> set[str]:
        ends = []
        while True:
            bound = self.parts([node.test], bound)
            ends.append(self.block(node.body, bound))
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                node = node.orelse[0]
                continue
            return _common([*ends, self.block(node.orelse, bound)])

    def handler(self, handler: ast.ExceptHandler, bound: set[str]) -> set[str]:
        return self.parts([handler.type], bound) | ({handler.name} if handler.name else set())

    def parts(self, nodes: Sequence[ast.AST | None], bound: set[str]) -> set[str]:
        """Expressions or a simple statement: its reads, then its bindings."""
        found = list(events(node for node in nodes if node is not None))
        for event in found:
            if event.kind in ("read", "captured", "delete"):
                self.read(event.name, bound)
        return bound | {event.name for event in found if event.kind == "bind"}

    def read(self, name: str, bound: set[str]) -> None:
        if name not in bound:
            self.exposed.add(name)


class _Everything(set[str]):
    """The names bound after a statement that control never passes: all there are."""

    def __contains__(self, name: object) -> bool:
        return True

    def __or__(self, other: object) -> _Everything:  # type: ignore[override]  # narrower on purpose: it stays all
        return self

    __ror__ = __or__


def _common(ends: Sequence[set[str]]) -> set[str]:
    reached = [end for end in ends if not isinstance(end, _Everything)]
    return set.intersection(*reached) if reached else _Everything()


def words(text: str) -> frozenset[str]:
    """A set of names, written as a line of them."""
    return frozenset(text.split())
