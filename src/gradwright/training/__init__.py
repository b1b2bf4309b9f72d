"""Gradient accumulation on purpose: windows of micro-batches with the gradient of their full batch.

The public names stand in ``__init__.pyi``; each is loaded when first used.
"""

from gradwright.ground.doors import door

__all__, __getattr__ = door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
