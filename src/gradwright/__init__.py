"""Gradwright: is every hand-made gradient right, why is its backward slow, and what mends it.

The public names stand in ``__init__.pyi``. Each is loaded when first used, so that ``gradwright explain GW301`` never
imports torch.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOME = {
    alias.name: str(node.module) for node in _STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gradwright' has no attribute {name!r}")
    if _HOME[name] == __name__:  # a room that is used by its name: gw.penalties
        return importlib.import_module(f"{__name__}.{name}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
