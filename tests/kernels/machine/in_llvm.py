"""Kernels in LLVM's own language, for what the instructions of generated source can't do: wait for one another."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from array import array

from gradwright.kernels.machine import pool
from gradwright.kernels.machine.compiling import Kernel, addresses

# Two blocks, each of which ends when the other has begun: one thread alone would never come back. Then each writes
# half of the smallest normal float32 at its place.
MEETING = """
define void @meeting(i64 %parameters) {
  %words = inttoptr i64 %parameters to ptr
  %done = getelementptr i64, ptr %words, i64 1
  %present = getelementptr i64, ptr %words, i64 3
  %smallest = getelementptr i64, ptr %words, i64 4
  %halves = getelementptr i64, ptr %words, i64 5
  br label %next
next:
  %block = atomicrmw add ptr %words, i64 1 monotonic
  %is_over = icmp sge i64 %block, 2
  br i1 %is_over, label %end, label %meet
meet:
  %arrived = atomicrmw add ptr %present, i64 1 monotonic
  br label %look
look:
  %there = load atomic i64, ptr %present monotonic, align 8
  %are_both = icmp eq i64 %there, 2
  br i1 %are_both, label %write, label %look
write:
  %number = load volatile float, ptr %smallest
  %half = fmul float %number, 0.5
  %place = getelementptr float, ptr %halves, i64 %block
  store float %half, ptr %place
  %counted = atomicrmw add ptr %done, i64 1 release
  br label %next
end:
  ret void
}
"""

# Blocks that end when the word at 3 is no longer 0.
HELD = """
define void @held(i64 %parameters) {
  %words = inttoptr i64 %parameters to ptr
  %done = getelementptr i64, ptr %words, i64 1
  %blocks = getelementptr i64, ptr %words, i64 2
  %released = getelementptr i64, ptr %words, i64 3
  %count = load i64, ptr %blocks
  br label %next
next:
  %block = atomicrmw add ptr %words, i64 1 monotonic
  %is_over = icmp sge i64 %block, %count
  br i1 %is_over, label %end, label %look
look:
  %word = load atomic i64, ptr %released monotonic, align 8
  %is_held = icmp eq i64 %word, 0
  br i1 %is_held, label %look, label %finish
finish:
  %counted = atomicrmw add ptr %done, i64 1 release
  br label %next
end:
  ret void
}
"""


@functools.cache
def from_text(text: str, name: str) -> Kernel:
    (address,) = addresses(text, (name,))
    return Kernel(name, "", address, "compiled", 0.0, ctypes.CFUNCTYPE(None, ctypes.c_int64)(address))


def launch(kernel: Kernel, parameters: array[int], threads: int) -> None:
    pool.run(kernel, parameters, parameters.buffer_info()[0], threads)


def met(threads: int = 2) -> list[float]:
    """What the two blocks of ``MEETING`` wrote, as multiples of the smallest normal number."""
    words = array("q", [0, 0, 2, 0, 0x00800000, 0])
    launch(from_text(MEETING, "meeting"), words, threads)
    assert words[1] == 2
    # Read as integers: the thread that reads may flush subnormal numbers itself.
    return [bits / 0x00800000 for bits in memoryview(words).cast("B").cast("i")[10:12]]


class Held:
    """A launch of four held blocks on two threads, in a Python thread of its own, which are both inside."""

    def __init__(self, *, daemon: bool = False) -> None:
        self.words = array("q", [0, 0, 4, 0])
        self.thread = threading.Thread(target=launch, args=(from_text(HELD, "held"), self.words, 2), daemon=daemon)
        self.thread.start()
        until_both_are_inside(self.words)

    @property
    def done(self) -> int:
        """How many of its blocks are."""
        return self.words[1]

    def release(self) -> None:
        self.words[3] = 1
        self.thread.join()


def until_both_are_inside(words: array[int]) -> None:
    while words[0] < 2:
        time.sleep(0.001)
