"""Scalar formulas as kernels: one pass over memory for a value and its gradients.

The public names stand in ``__init__.pyi``. The rooms, from below: ``formula`` (what is computed, and its derivatives),
``code`` (as source text), ``machine`` (machine code, its cache, threads), ``launch`` (on tensors), ``autograd``
(differentiable), ``calls`` (what a user hands over), ``elementwise`` (the function they call).
"""

from gradwright.ground.doors import door

__all__, __getattr__ = door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
