"""Packages whose public names stand in their ``__init__.pyi`` and are loaded when first used."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def door(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """The public names of a package, and its ``__getattr__``.

    ``file``: the package's ``__init__.py``, beside which its stub lies. Nothing but the standard library is imported.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a room that is used by its name: gw.penalties
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return list(homes), load
