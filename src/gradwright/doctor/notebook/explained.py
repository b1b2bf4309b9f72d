"""Autograd errors of notebook cells, explained below their traceback."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gradwright.doctor.explaining import Block, tell, told_in
from gradwright.doctor.source.cells import cell_names
from gradwright.doctor.source.places import relative


class Cells(Block):
    """Told of each cell that ran. It stands on IPython's events, so whatever shows tracebacks there goes on to.

    ``told``: whether a report has told of the exception already.
    """

    def __init__(self, shell: Any, told: Callable[[Exception], bool]) -> None:
        self._shell = weakref.ref(shell)
        self._told = told

    def before(self, *_: Any) -> None:
        """``pre_run_cell``."""
        told_in(self).clear()

    def after(self, result: Any = None) -> None:
        """``post_run_cell``: the traceback, if there is one, was shown."""
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, Exception) and not self._told(error):
            tell(error, told_in(self), self._named)

    def _named(self, file: str) -> str:
        return cell_names(self._shell()).get(file) or relative(file)
