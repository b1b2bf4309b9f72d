"""``%load_ext gradwright``: autograd errors of cells are explained, and ``%%gradwright`` examines what a cell runs."""

from __future__ import annotations

import weakref
from typing import Any

from gradwright.doctor.notebook.explained import Cells
from gradwright.doctor.notebook.magic import Magic

_loaded: weakref.WeakKeyDictionary[Any, tuple[Cells, Magic | None]] = weakref.WeakKeyDictionary()


def load(shell: Any) -> None:
    """Once for each shell. Whatever shows cells but is no IPython (has its events alone) gets the explanations."""
    if shell in _loaded:
        return
    magic = Magic(shell) if hasattr(shell, "input_transformers_cleanup") else None
    cells = Cells(shell, magic.told if magic is not None else lambda error: False)
    _loaded[shell] = cells, magic
    cells.__enter__()
    shell.events.register("pre_run_cell", cells.before)
    if magic is not None:
        magic.put_on()  # its report comes before the explanation, which it makes superfluous
    shell.events.register("post_run_cell", cells.after)


def unload(shell: Any) -> None:
    cells, magic = _loaded.pop(shell, (None, None))
    if magic is not None:
        magic.take_off()
    if cells is not None:
        shell.events.unregister("pre_run_cell", cells.before)
        shell.events.unregister("post_run_cell", cells.after)
        cells.__exit__(None, None, None)
