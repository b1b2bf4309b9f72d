"""Faults and gaps of torch that were found in one torch, and are asked of the torch at hand before they count.

NOTE [Suspicions]: the tables of what torch can't do (``second_order``), gets wrong (``third_order``) or does slowly
(``methods.carrying``) were found in one torch (``FOUND_IN``), and the next one mends some. So a name in a table is a
suspicion. Where such a node is met, a small example is tried, once in a process, and what comes out decides. What can't
be tried stands: kernels of accelerators are not run for it, as that would take memory and streams of the caller's
device, perhaps in the middle of a captured CUDA graph, and in half precision differences prove little.
"""

from gradwright.derivatives.suspicions.asking import (
    Answer,
    ask,
    is_batched_by_vmap,
    is_differentiated_rightly_under_vmap,
    is_right_thrice,
    is_right_twice,
    is_right_under_vmap,
)

__all__ = [
    "Answer",
    "ask",
    "is_batched_by_vmap",
    "is_differentiated_rightly_under_vmap",
    "is_right_thrice",
    "is_right_twice",
    "is_right_under_vmap",
]
