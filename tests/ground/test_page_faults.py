"""Faults are counted by thread, and a buffer that comes anew is told from one that stays."""

import threading

from tests.holes import LARGE, PAGES, in_child_without_holes

from gradwright.ground.page_faults import comes_anew, faults_of_this_thread, measure_fresh_buffer
from gradwright.ground.threads import at_most


def test_a_large_buffer_comes_anew_and_a_small_one_does_not():
    assert in_child_without_holes(lambda: (comes_anew(LARGE), comes_anew(1 << 14))) == (True, False)


def test_a_large_fresh_buffer_costs_a_fault_a_page():
    with at_most(1):
        cost = measure_fresh_buffer(LARGE, rounds=4)
    assert 0.9 * PAGES < cost.faults < 1.1 * PAGES or cost.faults < PAGES / 100  # large pages
    assert cost.seconds > 0


def test_the_faults_of_another_thread_are_not_counted():
    def touch() -> None:
        bytearray(LARGE)[::4096] = bytes(len(range(0, LARGE, 4096)))

    def count_faults() -> tuple[int, int]:
        before = faults_of_this_thread()
        thread = threading.Thread(target=touch)
        thread.start()
        thread.join()
        between = faults_of_this_thread()
        touch()
        return between - before, faults_of_this_thread() - between

    of_another, of_this = in_child_without_holes(count_faults)
    assert of_another < PAGES // 10 < of_this
