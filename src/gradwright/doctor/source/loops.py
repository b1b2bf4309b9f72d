"""The loops of a file that walk over elements or rows: where they stand, what goes in, what comes out."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.source.effects import (
    FRAMES,
    OWN_VARIABLES,
    suspends,
    takes_gradients,
    trains,
    why_not_replayable,
)
from gradwright.doctor.source.files import Columns, SourceFile
from gradwright.doctor.source.names import Position, Scope, events, exposed
from gradwright.doctor.source.statements import DEFINITIONS, Definition, Origins, blocks, function_classes, qualname
from gradwright.ground.syntax import own_nodes

Loop = ast.For | ast.While

# Methods whose result is walked row by row; other calls may be anything (a loader, a file, a range).
_ROWS = {
    "unbind",
    "chunk",
    "unfold",
    "flatten",
    "ravel",
    "reshape",
    "view",
    "t",
    "transpose",
    "permute",
    "numpy",
    "tolist",
}
_WRAPPERS = {"zip", "enumerate", "reversed"}


@dataclass(frozen=True, slots=True)
class LoopSite:
    """The outermost loop of a nest that walks over elements or rows. Lines and columns from 1, in characters.

    ``function`` is the ``__qualname__`` of the function or class body around it, or ``<module>``. ``live_ins``: names
    it reads that its scope or one around it has bound before; ``live_outs``: names it binds that are read after it (all
    of them in a module or class body); ``mutates``: live-ins whose elements or attributes it writes. ``source`` is its
    text, dedented. ``gradient_loop``: it calls ``autograd.grad``. ``reads_own_variables``: its function looks at its
    own variables as a dictionary, so that nobody else may do so unseen.
    """

    index: int
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    live_ins: tuple[str, ...]
    live_outs: tuple[str, ...]
    mutates: tuple[str, ...]
    source: str
    replayable: bool
    not_replayable_because: str = ""
    contains_return: bool = False
    in_function_class: bool = False
    gradient_loop: bool = False
    reads_own_variables: bool = False


def find_loops(file: SourceFile) -> tuple[LoopSite, ...]:
    """The candidate loops, in the order of the text. Cost: about 50 ms per thousand lines of loops, little elsewhere.

    A loop is a candidate if its variable (of a ``while``: a name that its body binds again) helps to index something,
    or if it runs directly over a name, attribute or subscript. Loops that train (``backward``, ``step``, ``zero_grad``)
    or are left in the middle (``yield``, ``await``) are not; candidates inside them are found.

    >>> from gradwright.doctor.source.files import parse
    >>> text = b"def f(x, y, n):\\n    for i in range(n):\\n        y[i] = x[i] ** 2\\n    return y\\n"
    >>> [(site.line, site.live_ins, site.live_outs, site.mutates) for site in find_loops(parse(text, "f.py"))]
    [(2, ('n', 'x', 'y'), (), ('y',))]
    """
    return tuple(_Finder(file).run())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a walk over statements is: the definitions around, the loops around within the innermost of them."""

    chain: tuple[Definition, ...] = ()
    loops: tuple[Loop | ast.AsyncFor, ...] = ()


class _Finder:
    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.columns = Columns(file.text)
        self.origins = Origins(file.tree)
        self.function_classes = function_classes(file.tree, self.origins)
        self.scopes: dict[ast.AST, Scope] = {}
        self.looks: dict[ast.AST, bool] = {}
        self.frames = any(name in file.text for name in FRAMES)
        self.sites: list[LoopSite] = []

    def run(self) -> list[LoopSite]:
        stack: list[tuple[ast.stmt, _Place]] = [(statement, _Place()) for statement in reversed(self.file.tree.body)]
        while stack:
            statement, place = stack.pop()
            if isinstance(statement, (ast.For, ast.While)):
                nodes = list(ast.walk(statement))
                if _walks(statement, nodes) and not suspends(own_nodes(statement)) and not trains(nodes):
                    self.sites.append(self.site(statement, place, nodes))
                    continue
            if isinstance(statement, DEFINITIONS):
                place = _Place((*place.chain, statement))
            elif isinstance(statement, (ast.For, ast.While, ast.AsyncFor)):
                place = _Place(place.chain, (*place.loops, statement))
            for block in reversed([*blocks(statement)]):
                stack.extend((inner, place) for inner in reversed(block))
        return self.sites

    def site(self, loop: Loop, place: _Place, nodes: list[ast.AST]) -> LoopSite:
        span = self.columns.span(loop)
        gradient_loop = takes_gradients(nodes, self.origins)
        own = self.reads_own_variables(place)
        reason = (
            "it needs a live graph (autograd.grad)" if gradient_loop else why_not_replayable(loop, nodes, self.origins)
        )
        reason = reason or ("its function looks at its own variables" if own else "")
        live_ins, live_outs = self.lives(loop, place)
        mutated = _mutated(nodes)
        return LoopSite(
            index=len(self.sites),
            line=span.line,
            column=span.column,
            end_line=span.end_line,
            end_column=span.end_column,
            function=qualname(place.chain),
            live_ins=live_ins,
            live_outs=live_outs,
            mutates=tuple(name for name in live_ins if name in mutated),
            source=_dedented(self.columns.lines, loop, nodes),
            replayable=not reason,
            not_replayable_because=reason,
            contains_return=any(isinstance(node, ast.Return) for node in own_nodes(loop)),
            in_function_class=any(definition in self.function_classes for definition in place.chain),
            gradient_loop=gradient_loop,
            reads_own_variables=own,
        )

    def scope(self, node: Definition | ast.Module) -> Scope:
        if node not in self.scopes:
            self.scopes[node] = Scope.of(node)
        return self.scopes[node]

    def reads_own_variables(self, place: _Place) -> bool:
        """Whether the frame's variables are looked at, or ``locals`` is not what it was."""
        around = self.scope(place.chain[-1] if place.chain else self.file.tree)
        scopes = [self.scope(node) for node in place.chain] + [self.scope(self.file.tree)]
        if any("locals" in scope.binds or "locals" in scope.declared for scope in scopes):
            return True
        if not isinstance(place.chain[-1] if place.chain else None, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False  # there, locals() is the namespace itself, and no copy is made
        function = place.chain[-1]
        if function not in self.looks:
            reached = {self.origins.names.get(read, read).rsplit(".", 1)[-1] for read in around.reads}
            if self.frames:
                reached |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)} & FRAMES
            self.looks[function] = not OWN_VARIABLES.isdisjoint(reached)
        return self.looks[function]

    def lives(self, loop: Loop, place: _Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Live-ins and live-outs."""
        innermost = place.chain[-1] if place.chain else self.file.tree
        scope = self.scope(innermost)
        outer = place.loops[0] if place.loops else loop
        bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}

        read = exposed([loop])
        live_ins = {name for name in read if _bound_before(scope.binds.get(name, []), loop, outer)}
        enclosing = [self.scope(node) for node in place.chain[:-1] if not isinstance(node, ast.ClassDef)]
        free = {name for name in read if name not in scope.binds and name not in scope.declared}
        live_ins |= {name for name in free if any(name in around.binds for around in enclosing)}

        if not isinstance(innermost, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return tuple(sorted(live_ins)), tuple(sorted(bound))
        live_outs = {
            name
            for name in bound
            if name in scope.captured | scope.declared or _read_after(scope.reads.get(name, []), loop, outer)
        }
        return tuple(sorted(live_ins)), tuple(sorted(live_outs))


def _walks(loop: Loop, nodes: list[ast.AST]) -> bool:
    """Whether a loop's own variable helps to index something in its body, or it runs over what may be a tensor."""
    if isinstance(loop, ast.For):
        variables = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if _may_be_tensor(loop.iter):
            return True
    else:
        variables = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
    if not variables:
        return False
    variables |= _derived(nodes, variables)
    return any(
        isinstance(node, ast.Subscript)
        and any(isinstance(inner, ast.Name) and inner.id in variables for inner in ast.walk(node.slice))
        for node in nodes
    )


def _derived(nodes: list[ast.AST], variables: set[str]) -> set[str]:
    """Names that are computed from ``variables`` by integer arithmetic: ``k = 2 * i``."""
    derived: set[str] = set()
    assigned = [
        (node.targets[0].id, node.value)
        for node in nodes
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, (ast.BinOp, ast.Name))
    ]
    arithmetic = (ast.BinOp, ast.operator, ast.Name, ast.Constant, ast.expr_context)
    for name, value in assigned:
        inside = list(ast.walk(value))
        names = {node.id for node in inside if isinstance(node, ast.Name)}
        if names & (variables | derived) and all(isinstance(node, arithmetic) for node in inside):
            derived.add(name)
    return derived


def _may_be_tensor(node: ast.expr) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _WRAPPERS and any(_may_be_tensor(argument) for argument in node.args)
    return isinstance(node.func, ast.Attribute) and node.func.attr in _ROWS


_FILLS = {"append", "extend", "insert", "add", "update"}


def _mutated(nodes: list[ast.AST]) -> set[str]:
    """Names whose elements or attributes are written: ``y[i] = ...``, ``y.add_(...)``, ``rows.append(...)``."""
    found = set()
    for node in nodes:
        target: ast.AST | None = None
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method in _FILLS or (method.endswith("_") and not method.endswith("__")):
                target = node.func.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            target = node.target  # in place for a tensor or a list
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found


def _dedented(lines: list[str], loop: Loop, nodes: list[ast.AST]) -> str:
    """The loop's lines without its indentation; the inside of strings over several lines stays as it is."""
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    kept: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno and node.end_lineno > node.lineno:
            kept |= set(range(node.lineno + 1, node.end_lineno + 1))
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip(" \t\f"))]
    text = [
        line if number in kept or not line.startswith(indent) else line[len(indent) :]
        for number, line in enumerate(lines[first - 1 : last], start=first)
    ]
    return "\n".join(text) + "\n"


def _start(node: ast.stmt) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> Position:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _bound_before(binds: list[Position], loop: ast.stmt, outer: ast.stmt) -> bool:
    """Whether a name may have been bound when the loop is entered; ``outer`` is the outermost loop around it."""
    return any(at < _start(loop) or _end(loop) < at <= _end(outer) for at in binds)


def _read_after(reads: list[Position], loop: ast.stmt, outer: ast.stmt) -> bool:
    """Whether a name may be read when the loop is over: below it, or in the next round of a loop around it."""
    again = _start(outer) if outer is not loop else _end(loop)
    return any(at > _end(loop) or again <= at < _start(loop) for at in reads)
