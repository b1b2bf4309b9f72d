"""Calls of a hook around loops, such that nothing else in the program can tell.

NOTE [unseen]: what a transformed file must keep, and how. Line numbers, columns and tracebacks: new nodes take the
position of the loop's first word (of an assignment with a comprehension: its first character), old nodes keep theirs.
Docstrings and ``from __future__`` imports: loops are replaced where they stand. The frame's variables: ``locals()`` of
a function leaves a dictionary in the frame (before Python 3.13) that would keep objects alive, so it is emptied at
once; where a function looks at its own variables itself, none are taken. Every way out (end, break, return, exception)
passes ``leave``: ``try ... finally`` costs nothing on the way in and keeps tracebacks as they are.
"""

from __future__ import annotations

import ast
import copy
import sys
from bisect import bisect_left
from collections.abc import Sequence

from gradwright.doctor.source.compiled_elsewhere import compiled_elsewhere
from gradwright.doctor.source.files import Columns, SourceFile
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.statements import DEFINITIONS, blocks
from gradwright.doctor.source.walking import SITES

HOOK_NAME = "__gradwright_loops__"


def instrument(file: SourceFile, sites: Sequence[LoopSite], hook_name: str = HOOK_NAME, *, base: int = 0) -> ast.Module:
    """The file's syntax tree with ``hook.enter(id)``, ``hook.record(id, locals())``, ``hook.leave(id)`` around loops.

    ``id`` is ``base`` plus the site's index; ``record`` is called where ``enter`` returns true. Loops in Functions and
    in what Numba compiles are left alone. The caller puts the hook into ``builtins`` under ``hook_name`` before the
    code runs, for good (see NOTE [hook among globals]).
    ``file.tree`` is not changed. Cost: proportional to what stands around the loops.

    >>> from gradwright.doctor.source.files import parse
    >>> from gradwright.doctor.source.loops import find_loops
    >>> file = parse(b"for row in rows:\\n    total += row", "sum.py")
    >>> print(ast.unparse(instrument(file, find_loops(file), "hook")))
    if hook.enter(0):
        hook.record(0, locals())
    try:
        for row in rows:
            total += row
    finally:
        hook.leave(0)
    """
    elsewhere = compiled_elsewhere(file.tree, file.text)
    watched = [
        site
        for site in sites
        if not site.in_function_class and not any(first <= site.line <= last for first, last in elsewhere)
    ]
    return _Instrumenter(watched, Columns(file.text), hook_name, base).module(file.tree)


class _Instrumenter:
    def __init__(self, sites: Sequence[LoopSite], columns: Columns, hook_name: str, base: int) -> None:
        self.sites = {(site.line, site.column): site for site in sites}
        self.columns, self.hook_name, self.base = columns, hook_name, base
        self.lines = sorted({site.line for site in sites})

    def module(self, tree: ast.Module) -> ast.Module:
        """A copy of the path to every loop; all else is shared with the original."""
        root = copy.copy(tree)
        stack: list[tuple[ast.AST, bool]] = [(root, False)]
        while stack:
            parent, in_function = stack.pop()
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                block = getattr(parent, name, None)
                if not isinstance(block, list) or not any(self.reaches(node) for node in block):
                    continue
                new: list[ast.AST] = []
                for node in block:
                    if not self.reaches(node):
                        new.append(node)
                    elif (site := self.site(node)) is not None:
                        new += self.wrapped(node, site, in_function)
                    else:
                        copied = copy.copy(node)
                        inside = in_function
                        if isinstance(node, DEFINITIONS):
                            inside = not isinstance(node, ast.ClassDef)
                        stack.append((copied, inside))
                        new.append(copied)
                setattr(parent, name, new)
        return root

    def site(self, node: ast.AST) -> LoopSite | None:
        if not isinstance(node, SITES):
            return None
        span = self.columns.span(node)
        return self.sites.get((span.line, span.column))

    def reaches(self, node: ast.AST) -> bool:
        """Whether a loop to wrap is this node or somewhere inside it."""
        if isinstance(node, SITES) and not isinstance(node, (ast.For, ast.While)):
            return node.lineno in self.lines and self.site(node) is not None
        if not isinstance(node, (ast.ExceptHandler, ast.match_case)) and next(blocks(node), None) is None:
            return False
        if isinstance(node, ast.match_case):
            return any(self.reaches(inner) for inner in node.body)
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # statements have them
        at = bisect_left(self.lines, first)
        return at < len(self.lines) and self.lines[at] <= last

    def wrapped(self, loop: ast.stmt, site: LoopSite, in_function: bool) -> list[ast.stmt]:
        number = self.base + site.index
        recording: list[ast.stmt] = []
        if not site.reads_own_variables:
            variables = self.call(ast.Name("locals", ast.Load()))
            recording.append(ast.Expr(self.call(self.hook("record"), ast.Constant(number), variables)))
            if in_function and sys.version_info < (3, 13):
                emptied = ast.Attribute(self.call(ast.Name("locals", ast.Load())), "clear", ast.Load())
                recording.append(ast.Expr(self.call(emptied)))
        entering = self.call(self.hook("enter"), ast.Constant(number))
        before = ast.If(entering, recording, []) if recording else ast.Expr(entering)
        leaving = ast.Expr(self.call(self.hook("leave"), ast.Constant(number)))
        around = ast.Try(body=[], handlers=[], orelse=[], finalbody=[leaving])
        for node in (before, around):
            _place(node, loop)
        around.body = [loop]
        return [before, around]

    def hook(self, method: str) -> ast.expr:
        return ast.Attribute(ast.Name(self.hook_name, ast.Load()), method, ast.Load())

    def call(self, function: ast.expr, *args: ast.expr) -> ast.Call:
        return ast.Call(function, list(args), [])


def _place(node: ast.AST, loop: ast.stmt) -> None:
    """Give new nodes the position of the word that the statement begins with."""
    words = {ast.For: len("for"), ast.While: len("while"), ast.Return: len("return")}
    width = words.get(type(loop), 0)
    for new in ast.walk(node):
        if isinstance(new, (ast.stmt, ast.expr)):
            new.lineno, new.col_offset = loop.lineno, loop.col_offset
            new.end_lineno, new.end_col_offset = loop.lineno, loop.col_offset + width
