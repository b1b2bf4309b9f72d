"""Derivatives of a whole batch, of any node of a graph, with no loop.

The public names stand in ``__init__.pyi``. Each is loaded when first used: a Jacobian needs no Hessian's modules.
"""

from gradwright.ground.doors import door

__all__, __getattr__ = door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
