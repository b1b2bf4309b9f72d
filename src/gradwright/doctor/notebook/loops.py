"""The loops of cells while one is watched: its own, and those of functions that earlier cells defined.

NOTE [plain code again]: a function of the watched cell is made with the hook in its code and outlives the cell. When
the cell is over it gets the code that it would have had. The hook's name is the cell's own and stays in ``builtins``,
closed and empty: a generator that is under way keeps the code it began with.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from contextlib import ExitStack
from types import CodeType
from typing import Any

from gradwright.doctor.observe.loops import LoopWatch
from gradwright.doctor.source.cell_texts import read_cell, with_imports
from gradwright.doctor.source.entered import loop_uses
from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.loops import LoopSite, find_loops
from gradwright.doctor.source.own_looks import with_looks
from gradwright.doctor.source.places import text_of_file
from gradwright.doctor.source.transform import HOOK_NAME, instrument
from gradwright.ground.exchanged import exchanged_code, files_of_functions, give_back

_numbers = itertools.count()
_CANT_BE = (RecursionError, MemoryError, SyntaxError, ValueError)


class CellLoops:
    """An AST transformer of IPython's, put on for one cell. ``unwatched``: cells whose loops are not, and why not."""

    def __init__(self, shell: Any, watch: LoopWatch, own: tuple[str, ...]) -> None:
        """``own``: how the watched cell may be named."""
        self._shell, self._watch, self._own = shell, watch, own
        self._namespaces = [shell.user_global_ns]  # of the functions that cells define
        self._hook_name = f"{HOOK_NAME}{next(_numbers)}"
        self._stack = ExitStack()
        self._visited = False
        self._plain: tuple[str, CodeType] | None = None
        self.unwatched: dict[str, str] = {}

    def enter(self) -> None:
        setattr(builtins, self._hook_name, self._watch)
        with ExitStack() as stack:
            cells = self._shell.compile._filename_map
            for path in sorted(files_of_functions(self._namespaces) & set(cells) - set(self._own)):
                try:
                    self._watch_earlier(path, stack)
                except _CANT_BE as error:
                    self.unwatched[path] = f"{type(error).__name__}: {error}"
            self._shell.ast_transformers.append(self)
            stack.callback(self._stop_visiting)
            self._stack = stack.pop_all()

    def _stop_visiting(self) -> None:
        if self in self._shell.ast_transformers:  # the cell may have taken them all off
            self._shell.ast_transformers.remove(self)

    def leave(self) -> None:
        self._watch.closed = True
        self._stack.close()
        if self._plain is not None:
            give_back(*self._plain, self._hook_name, self._namespaces)
        if not self._watch.uses and self._plain is None:
            delattr(builtins, self._hook_name)  # nothing ever named it

    def forget(self) -> None:
        """Nothing that was kept is needed any more; the hook lives on, and so would all that it leads to."""
        self._watch.uses, self._watch.try_live, self._watch.on_look = [], None, None

    def _watch_earlier(self, path: str, stack: ExitStack) -> None:
        file = read_cell(path)
        sites = find_loops(with_imports(file, self._shell.user_ns)) if file is not None else ()
        if file is None or all(site.in_function_class or site.function == "<module>" for site in sites):
            return
        code = self._compiled(instrument(file, sites, self._hook_name, base=self._add(file, sites)), path)
        stack.enter_context(exchanged_code(path, code, self._hook_name, self._namespaces))

    def visit(self, node: ast.Module) -> ast.Module:
        """IPython's: the watched cell's tree, then those of cells that it runs, which are left alone."""
        if self._visited:
            return node
        self._visited = True
        path = next((name for name in self._own if name in self._shell.compile._filename_map), self._own[0])
        if len(self._shell.ast_transformers) > 1:
            self.unwatched[path] = "other AST transformers change the cells of this shell"
            return node
        try:
            return self._watched(path, node)
        except _CANT_BE as error:
            self.unwatched[path] = f"{type(error).__name__}: {error}"
            return node

    def _watched(self, path: str, node: ast.Module) -> ast.Module:
        plain = self._compiled(node, path)
        file = SourceFile(path, text_of_file(path), node)
        sites = find_loops(with_imports(file, self._shell.user_ns))
        marked = with_looks(file, self._hook_name)
        if not sites and marked is file:
            return node
        tree = instrument(marked, sites, self._hook_name, base=self._add(file, sites))
        self._plain = path, plain
        return tree

    def _add(self, file: SourceFile, sites: tuple[LoopSite, ...]) -> int:
        return self._watch.add(loop_uses(file, sites))

    def _compiled(self, tree: ast.Module, path: str) -> CodeType:
        flags = self._shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(tree, path, "exec", flags=flags, dont_inherit=True)
        return code
