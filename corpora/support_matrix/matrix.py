"""All cells: the columns, and the verdict of a row in a column."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from . import programs  # noqa: F401
from .row import ROWS, Row
from .verdict import NOT_OFFERED, Verdict, judge

TORCH_COLUMNS = {
    "gw.custom_gradient": "gradwright",
    "autograd.Function, combined": "combined",
    "autograd.Function, setup_context": "setup_context",
    "torch.library.custom_op": "custom_op",
}
PEER_COLUMNS = {"jax.custom_vjp": "jax", "HIPS autograd": "hips"}
COLUMNS = TORCH_COLUMNS | PEER_COLUMNS


@functools.cache
def column(name: str) -> ModuleType:
    """The module of a column: functions for the rows' programs, or (peers) programs of its own; ``NOT_OFFERED``."""
    return importlib.import_module(f".columns.{COLUMNS[name]}", __package__)


def verdict(name: str, row: Row) -> Verdict:
    """Run a cell."""
    module = column(name)
    if row.name in module.NOT_OFFERED:
        return Verdict(NOT_OFFERED, module.NOT_OFFERED[row.name])
    if name in TORCH_COLUMNS:
        return judge(lambda: row.program(module))
    return judge(getattr(module, row.name))


def rows() -> list[Row]:
    return ROWS
