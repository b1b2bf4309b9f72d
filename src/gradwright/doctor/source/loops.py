"""The loops of a file that walk over elements or rows: where they stand, what goes in, what comes out."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, replace

from gradwright.doctor.source.effects import (
    FRAMES,
    OWN_VARIABLES,
    suspends,
    takes_gradients,
    trains,
    why_not_replayable,
)
from gradwright.doctor.source.files import Columns, SourceFile
from gradwright.doctor.source.liveness import read_after
from gradwright.doctor.source.names import Position, Scope, events, exposed
from gradwright.doctor.source.reductions import key
from gradwright.doctor.source.statements import DEFINITIONS, Definition, Origins, blocks, function_classes, qualname
from gradwright.doctor.source.tails import tail_length
from gradwright.doctor.source.walking import Loop, comprehension_of, walks
from gradwright.ground.syntax import own_nodes


@dataclass(frozen=True, slots=True)
class LoopSite:
    """The outermost loop of a nest that walks over elements or rows. Lines and columns from 1, in characters.

    ``function`` is the ``__qualname__`` of the function or class body around it, or ``<module>``. ``live_ins``: names
    it reads that its scope or one around it has bound before, and the n of ``[0] * n`` that it fills; ``live_outs``:
    names it binds that are read after it (all of them in a module or class body); ``mutates``: live-ins whose elements
    or attributes it writes. ``source`` is its text, dedented. ``gradient_loop``: it calls ``autograd.grad``.
    ``reads_own_variables``: its function looks at its own variables as a dictionary, so that nobody else may do so
    unseen.

    A statement (an assignment or ``return``) with a comprehension that computes with elements or rows is a site as
    well. ``tail``: how many statements right after the loop, in the same block, belong to it, because they consume a
    list or dict that it fills; ``live_ins`` and ``live_outs`` are those of loop and tail together. ``read_after``: the
    live-outs that the text of the file reads later.
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
    tail: int = 0
    read_after: tuple[str, ...] = ()


def find_loops(file: SourceFile) -> tuple[LoopSite, ...]:
    """The candidate loops, in the order of the text. Cost: about 50 ms per thousand lines of loops, little elsewhere.

    A loop is a candidate if its variable (of a ``while``: a name that its body binds again) helps to index something,
    or if it runs directly over a name, attribute or subscript, or if it gathers powers by its variable, or masks of
    what is equal to it. Loops that train (``backward``, ``step``, ``zero_grad``) or are left in the middle (``yield``,
    ``await``) are not; candidates inside them are found.

    >>> from gradwright.doctor.source.files import parse
    >>> text = b"def f(x, y, n):\\n    for i in range(n):\\n        y[i] = x[i] ** 2\\n    return y\\n"
    >>> [(site.line, site.live_ins, site.live_outs, site.mutates) for site in find_loops(parse(text, "f.py"))]
    [(2, ('n', 'x', 'y'), (), ('y',))]
    """
    return tuple(_Finder(file).run())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a walk over statements is: the definitions around, the loops around within the innermost of them, and the
    place in a block."""

    chain: tuple[Definition, ...]
    loops: tuple[Loop | ast.AsyncFor, ...]
    block: list[ast.stmt]
    position: int


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
        body = self.file.tree.body
        stack = [(statement, _Place((), (), body, at)) for at, statement in reversed([*enumerate(body)])]
        while stack:
            statement, place = stack.pop()
            nodes = self.walked(statement, place)
            if nodes is not None:
                self.sites.append(self.site(statement, place, nodes))
                continue
            if isinstance(statement, DEFINITIONS):
                place = replace(place, chain=(*place.chain, statement), loops=())
            elif isinstance(statement, (ast.For, ast.While, ast.AsyncFor)):
                place = replace(place, loops=(*place.loops, statement))
            for block in reversed([*blocks(statement)]):
                inside = [(inner, _Place(place.chain, place.loops, block, at)) for at, inner in enumerate(block)]
                stack.extend(reversed(inside))
        return self.sites

    def walked(self, statement: ast.stmt, place: _Place) -> list[ast.AST] | None:
        """The nodes of a loop or comprehension over elements or rows; None for what is no site."""
        if isinstance(statement, (ast.For, ast.While)):
            nodes = list(ast.walk(statement))
            found = walks(statement, nodes)
        else:
            if place.chain and isinstance(place.chain[-1], ast.ClassDef):
                return None  # a comprehension does not see the names of a class body
            found = comprehension_of(statement) is not None
            nodes = list(ast.walk(statement)) if found else []
        return nodes if found and not suspends(own_nodes(statement)) and not trains(nodes) else None

    def site(self, loop: ast.stmt, place: _Place, nodes: list[ast.AST]) -> LoopSite:
        span = self.columns.span(loop)
        gradient_loop = takes_gradients(nodes, self.origins)
        own = self.reads_own_variables(place)
        reason = (
            "it needs a live graph (autograd.grad)" if gradient_loop else why_not_replayable(loop, nodes, self.origins)
        )
        reason = reason or ("its function looks at its own variables" if own else "")
        below = place.block[place.position + 1 :]
        tail = tail_length(nodes, place.block[: place.position], below, self.origins)
        region = [loop, *below[:tail]]
        live_ins, live_outs = self.lives(region, place)
        mutated = _mutated([node for statement in region for node in ast.walk(statement)] if tail else nodes)
        live_ins = tuple(sorted({*live_ins, *_lengths(place.block[: place.position], mutated & {*live_ins})}))
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
            tail=tail,
            read_after=self.read_later(region, live_outs, place),
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

    def lives(self, region: list[ast.stmt], place: _Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Live-ins and live-outs."""
        innermost = place.chain[-1] if place.chain else self.file.tree
        scope = self.scope(innermost)
        outer = place.loops[0] if place.loops else None
        bound = _bound(region)

        read = exposed(region)
        live_ins = {name for name in read if _bound_before(scope.binds.get(name, []), region, outer)}
        enclosing = [self.scope(node) for node in place.chain[:-1] if not isinstance(node, ast.ClassDef)]
        free = {name for name in read if name not in scope.binds and name not in scope.declared}
        live_ins |= {name for name in free if any(name in around.binds for around in enclosing)}

        if not isinstance(innermost, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return tuple(sorted(live_ins)), tuple(sorted(bound))
        live_outs = {
            name
            for name in bound
            if name in scope.captured | scope.declared or _read_after(scope.reads.get(name, []), region, outer)
        }
        if live_outs - scope.captured - scope.declared:
            last = region[-1].end_lineno or region[-1].lineno
            live_outs &= read_after(self.file.tree, region[0].lineno, last) | scope.captured | scope.declared
        return tuple(sorted(live_ins)), tuple(sorted(live_outs))

    def read_later(self, region: list[ast.stmt], live_outs: tuple[str, ...], place: _Place) -> tuple[str, ...]:
        """Of the names that come out, those that are read later, or in a function, which may run at any time."""
        innermost = place.chain[-1] if place.chain else self.file.tree
        if not live_outs or isinstance(innermost, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return live_outs
        if isinstance(innermost, ast.ClassDef):
            return live_outs  # attributes of the class
        last = region[-1].end_lineno or region[-1].lineno
        later = read_after(self.file.tree, region[0].lineno, last)
        return tuple(name for name in live_outs if name in later or name in self.exported)

    @functools.cached_property
    def exported(self) -> set[str]:
        """The names in ``__all__``: other files read them."""
        return {
            node.value
            for statement in self.file.tree.body
            if isinstance(statement, ast.Assign) and any(key(target) == "__all__" for target in statement.targets)
            for node in ast.walk(statement.value)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }


def _bound(statements: list[ast.stmt]) -> set[str]:
    return {event.name for event in events(statements, into_functions=False) if event.kind == "bind"}


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


def _lengths(above: list[ast.stmt], filled: set[str]) -> set[str]:
    """The names that say how long the lists are that are filled: ``n`` of ``counts = [0] * n``."""
    found = set()
    for one in above:
        made = one.value if isinstance(one, ast.Assign) and isinstance(one.value, ast.BinOp) else None
        if made is None or not isinstance(made.op, ast.Mult) or not _bound([one]) & filled:
            continue
        sides = made.left, made.right
        if any(isinstance(side, ast.List) for side in sides):
            found |= {side.id for side in sides if isinstance(side, ast.Name)}
    return found


def _dedented(lines: list[str], loop: ast.stmt, nodes: list[ast.AST]) -> str:
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


def _bound_before(binds: list[Position], region: list[ast.stmt], outer: ast.stmt | None) -> bool:
    """Whether a name may have been bound when the region is entered; ``outer`` is the outermost loop around it."""
    again = _end(outer) if outer is not None else _end(region[-1])
    return any(at < _start(region[0]) or _end(region[-1]) < at <= again for at in binds)


def _read_after(reads: list[Position], region: list[ast.stmt], outer: ast.stmt | None) -> bool:
    """Whether a name may be read when the region is over: below it, or in the next round of a loop around it."""
    again = _start(outer) if outer is not None else _end(region[-1])
    return any(at > _end(region[-1]) or again <= at < _start(region[0]) for at in reads)
