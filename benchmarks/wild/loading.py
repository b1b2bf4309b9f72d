"""Modules of the unpacked packages, imported with as little around them as they can do with."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from wild.fetching import Pin, fetched, pins

HERE = Path(__file__).parent
# What packages import at their door and no Function here calls.
NOT_INSTALLED = (
    *("accelerate", "aiohttp", "beartype", "boltons", "cvxpy", "einops", "h5py", "huggingface_hub", "jaxtyping"),
    *(
        "matplotlib",
        "nibabel",
        "omegaconf",
        "onnx",
        "opt_einsum",
        "packaging.tags",
        "pandas",
        "PIL",
        "psutil",
        "pykeops",
    ),
    *("pyparsing", "pywt", "regex", "requests", "safetensors", "scipy", "sklearn", "tensordict", "torchaudio"),
    *("torchvision", "tqdm", "transformers", "triton", "wandb", "xxhash"),
)
PINS = pins(HERE / "requirements.txt")


def load(module: str, package: str | Pin, *, bare: bool = True, absent: Sequence[str] = ()) -> Any:
    """``module`` of the pinned ``package``.

    ``bare``: the packages above it are made without running their ``__init__``, which mostly import far more than the
    Function needs. ``absent``: modules to leave out, besides those that aren't installed here, as no code on the way
    to the Function calls them; whatever is asked of them is a stand-in.
    """
    folder = fetched(package if isinstance(package, Pin) else PINS[package])
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if absent:
        sys.meta_path.insert(0, _Absent(tuple(absent)))
    if not any(isinstance(finder, _Absent) for finder in sys.meta_path[-1:]):
        sys.meta_path.append(_Absent(NOT_INSTALLED))
    parts = module.split(".")
    for count in range(1, len(parts)) if bare else ():
        name = ".".join(parts[:count])
        if name not in sys.modules:
            above = types.ModuleType(name)
            above.__path__ = [str(folder.joinpath(*parts[:count]))]
            sys.modules[name] = above
    return importlib.import_module(module)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if any(name == absent or name.startswith(absent + ".") for absent in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        stand_in = MagicMock(name=spec.name)
        stand_in.__path__ = []
        stand_in.__spec__ = spec
        return stand_in

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(name: str, **attributes: Any) -> None:
    """A module ``name`` that holds just these: where a Function's own code needs one name of a module too heavy."""
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
