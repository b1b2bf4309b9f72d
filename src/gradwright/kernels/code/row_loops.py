"""The kernel around a row program: Python for ``machine.lowering``, one loop over blocks of rows.

NOTE [Order of sums]: a block's rows are a fixed number, and what blocks have summed is added up afterwards in their own
order, so that no result depends on how many threads there were. Along a row, at most ``RUN`` float32 numbers are summed
as LLVM likes (in the lanes of a vector), everything above that in float64.

NOTE [Maxima as integers]: LLVM makes no vector code of a maximum of floats that keeps NaN. The bits of a float, those
below the sign turned round where it is negative, are an integer of the same order, in which a positive NaN is above
infinity; a negative one is below, and becomes NaN in what is computed from the row's numbers.

NOTE [Once for each element]: the dearest number that two passes need (the exponential of a softmax) is computed in the
first of them and kept where the result will be, or, of few classes side by side, in a scratch buffer.

NOTE [Packing]: LLVM makes no vector code of elements that lie apart along the inner loop. Those of a run are copied
into a scratch buffer first, class by class, or out of one afterwards; a copy of a run stays in the first cache.
"""

from __future__ import annotations

from gradwright.kernels.code.cpu_code import Precision
from gradwright.kernels.code.row_across import Across
from gradwright.kernels.code.row_along import Along
from gradwright.kernels.code.row_layout import RowLoops
from gradwright.kernels.code.row_writer import LANES, ROOM, SIDE_BY_SIDE, SLOTS


def row_kernel_source(loops: RowLoops) -> str:
    """The text of a module that defines ``kernel(parameters)``, the address of an int64 array as ``loops.words()``."""
    return (Along(loops) if loops.walk == "along" else Across(loops)).text()


def fits(loops: RowLoops) -> bool:
    """Are there instructions for as many results and scratch buffers?"""
    return loops.walk == "along" or Across(loops).slots <= SLOTS


def positions_a_run(classes: int, precision: Precision) -> int:
    """Rows of a run whose elements a scratch buffer has room for; 0, where the rows are too long."""
    room = ROOM[precision] // max(classes, 1) // LANES * LANES - LANES
    return max(0, min(SIDE_BY_SIDE, room))
