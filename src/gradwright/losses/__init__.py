"""Losses at the speed of memory, right at the extremes.

The public names stand in ``__init__.pyi``; each is loaded when first used. One loss per file: its derivation above, its
source, the unfused ``reference`` beside the fast one. ``common`` is what they share.
"""

from gradwright.ground.doors import door

__all__, __getattr__ = door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
