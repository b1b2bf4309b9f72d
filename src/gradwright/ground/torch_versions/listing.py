"""What the torch that is installed has not of all that Gradwright uses: ``gradwright --version`` prints it."""

from __future__ import annotations

import importlib
import pkgutil

import torch

from gradwright.ground import torch_versions
from gradwright.ground.torch_versions.capability import Capability, try_all


def try_everything() -> list[Capability]:
    """Load the whole room and try each capability; those that this torch lacks. Cost: two seconds, most for imports."""
    for info in pkgutil.iter_modules(torch_versions.__path__):
        importlib.import_module(f"{torch_versions.__name__}.{info.name}")
    return try_all()


def describe() -> str:
    """The version of torch and what it lacks, a line each.

    >>> describe().startswith("torch 2.")
    True
    """
    lacking = try_everything()
    if not lacking:
        return f"torch {torch.__version__} (it has all that Gradwright uses)"
    lines = (f"  {one.describe().removeprefix(f'torch {torch.__version__} ')}" for one in lacking)
    return "\n".join([f"torch {torch.__version__}", *lines])


if __name__ == "__main__":
    print(describe())
