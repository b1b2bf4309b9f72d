"""Whether a file was installed or is the user's own. Standard library only.

Most of what is installed lies in a ``site-packages`` folder. A torch that was built from source lies in its checkout,
and a cluster's modules, or ``pip install --target``, put distributions into any folder on Python's path.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: The folders of the standard library.
STANDARD = tuple({os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib")})
# What people build from source to train with, without being its authors.
_BUILT = ("torch", "torchgen", "functorch", "torchvision", "torchaudio", "triton", "numpy", "numba", "llvmlite")


@functools.cache
def is_installed(path: str) -> bool:
    """Whether the file at a real path is of an installed distribution (not of the standard library).

    Cost: a look at the folders on Python's path, once for each of them.

    >>> import torch
    >>> is_installed(os.path.realpath(torch.__file__)), is_installed("/home/me/train.py")
    (True, False)
    """
    if any(part in path for part in _INSTALLED):
        return True
    if path.startswith(STANDARD):
        return False
    if any(path.startswith(home) for home in _homes_of_built()):
        return True
    return any(
        path.startswith(folder) and path[len(folder) :].partition(os.sep)[0] in _installed_in(folder)
        for folder in _folders_on_path()
    )


def _homes_of_built() -> Iterator[str]:
    for name in _BUILT:
        home = _home_of(name) if name not in sys.modules else _home(getattr(sys.modules[name], "__file__", None))
        if home is not None:
            yield home


@functools.cache
def _home_of(name: str) -> str | None:
    """By Python's path alone: the hook of ours that watches imports asks here."""
    spec = importlib.machinery.PathFinder.find_spec(name)
    return _home(spec.origin if spec is not None else None)


def _home(file: str | None) -> str | None:
    """The folder of a package; None for a module that is one file, which may be the user's."""
    return os.path.realpath(Path(file).parent) + os.sep if file and Path(file).name == "__init__.py" else None


def _folders_on_path() -> Iterator[str]:
    for entry in dict.fromkeys(sys.path):
        if entry:
            yield os.path.realpath(entry) + os.sep


@functools.cache
def _installed_in(folder: str) -> frozenset[str]:
    """The first parts of the paths of all files that distributions say they put into ``folder``. A script of the user's
    that lies beside them is none of these."""
    found: set[str] = set()
    try:
        infos = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".dist-info")]
    except OSError:
        return frozenset()
    for info in infos:
        try:
            lines = (Path(info) / "RECORD").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found |= {line.lstrip('"').partition(",")[0].partition("/")[0] for line in lines}
    return frozenset(found - {"", ".."})
