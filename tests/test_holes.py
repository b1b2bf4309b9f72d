"""Where the heap has a hole, a large buffer falls into it, unless the hole is held."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A process of its own: in a worker's heap a thousand blocks may lie apart, and leave no hole of their size.
PROGRAM = """
from gradwright.ground.page_faults import comes_anew
from tests.holes import LARGE, in_child_without_holes
blocks = [bytearray(100_000) for _ in range(1000)]
end_of_the_heap = bytearray(100_000)
del blocks
print(comes_anew(LARGE), in_child_without_holes(lambda: comes_anew(LARGE)))
"""


def test_a_hole_is_held():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("False True\n", "")
