"""Loops with a true dependence, inside a Function, become Numba kernels over the tensors' memory.

``views``, ``buffers`` (what the text shows) and ``arguments`` (what was seen) -> ``statements`` and ``expressions``
(the loop's, as the kernel's: ``scalars``, ``rows``, ``reductions``, ``calls``; ``neighbours``: what stands beside it)
-> ``finishing`` (``bounds``: whether indices need checks; ``order``: rows before columns) -> ``conditions`` and
``calling`` (what stands in the loop's place) -> ``placing``.
"""

from gradwright.doctor.rewrite.kernels.compiling import compile_kernel

__all__ = ["compile_kernel"]
