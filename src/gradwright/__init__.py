"""Gradwright: is every hand-made gradient right, why is its backward slow, and what mends it.

Public names are loaded when first used, so that ``gradwright explain GW301`` never imports torch.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "check": "gradwright.checking.check",
    "check_loss": "gradwright.checking.losses",
    "diagnose": "gradwright.doctor.consultation",
    "surrogate": "gradwright.functions",
}

__all__ = ["__version__", "check", "check_loss", "diagnose", "surrogate"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gradwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
