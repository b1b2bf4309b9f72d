"""Where the heap has a hole, a large buffer falls into it, unless the hole is held."""

from tests.holes import LARGE, hold_the_holes, in_child_without_holes

from gradwright.ground.forked import in_child
from gradwright.ground.page_faults import comes_anew


def test_a_hole_is_held():
    def in_a_holey_process() -> tuple[bool, bool]:
        _holes = hold_the_holes()
        blocks = [bytearray(100_000) for _ in range(1000)]
        _end_of_the_heap = bytearray(100_000)
        del blocks
        without = comes_anew(LARGE)
        return without, in_child_without_holes(lambda: comes_anew(LARGE))

    assert in_child(in_a_holey_process, seconds=120, memory_bytes=8 << 30).value == (False, True)
