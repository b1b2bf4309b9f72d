"""``%load_ext gradwright``: autograd errors of notebook cells are explained below their traceback."""

from __future__ import annotations

import weakref
from typing import Any

from gradwright.doctor.explaining import Block, tell, told_in
from gradwright.doctor.source.places import relative


class Cells(Block):
    """Told of each cell that ran. It stands on IPython's events, so whatever shows tracebacks there goes on to."""

    def __init__(self, shell: Any) -> None:
        self._shell = weakref.ref(shell)

    def before(self, *_: Any) -> None:
        """``pre_run_cell``."""
        told_in(self).clear()

    def after(self, result: Any = None) -> None:
        """``post_run_cell``: the traceback, if there is one, was shown."""
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, Exception):
            tell(error, told_in(self), self._named)

    def _named(self, file: str) -> str:
        """``In[3]`` for the file that IPython gave the third cell."""
        cells = getattr(getattr(self._shell(), "compile", None), "_filename_map", None) or {}
        return f"In[{cells[file]}]" if file in cells else relative(file)


_loaded: weakref.WeakKeyDictionary[Any, Cells] = weakref.WeakKeyDictionary()


def load(shell: Any) -> None:
    """Once for each shell."""
    if shell in _loaded:
        return
    cells = _loaded[shell] = Cells(shell)
    cells.__enter__()
    shell.events.register("pre_run_cell", cells.before)
    shell.events.register("post_run_cell", cells.after)


def unload(shell: Any) -> None:
    cells = _loaded.pop(shell, None)
    if cells is not None:
        shell.events.unregister("pre_run_cell", cells.before)
        shell.events.unregister("post_run_cell", cells.after)
        cells.__exit__(None, None, None)
