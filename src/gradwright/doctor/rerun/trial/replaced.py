"""A file's text replaced in a running process: as the script itself, as a module, and in tracebacks."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any


class ReplacedSource(MetaPathFinder):
    """On ``sys.meta_path``, in front: whoever imports ``path`` gets ``compiled()`` and sees ``text``."""

    def __init__(self, path: str, text: str, compiled: Callable[[], Any]) -> None:
        self._path, self._compiled = os.path.realpath(path), compiled
        self.show(path, text)
        self.show(self._path, text)

    def show(self, path: str, text: str) -> None:
        """To whoever quotes lines of it (no time of change: it is not read again from the disk)."""
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)

    def is_it(self, path: str) -> bool:
        return os.path.realpath(path) == self._path

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not spec.origin or not self.is_it(spec.origin):
            return None
        spec.loader = _Loader(fullname, spec.origin, self._compiled)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, compiled: Callable[[], Any]) -> None:
        super().__init__(fullname, path)
        self._compiled = compiled

    def get_code(self, fullname: str) -> Any:
        return self._compiled()
