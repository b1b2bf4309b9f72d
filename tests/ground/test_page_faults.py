"""Faults are counted by thread, and a buffer that comes anew is told from one that stays."""

import threading

from gradwright.ground.forked import in_child
from gradwright.ground.page_faults import comes_anew, faults_of_this_thread, measure_fresh_buffer
from gradwright.ground.threads import at_most

LARGE = 40_000_000  # above what glibc's threshold adapts itself to
PAGES = LARGE // 4096


def test_a_large_buffer_comes_anew_and_a_small_one_does_not():
    assert in_child(lambda: (comes_anew(LARGE), comes_anew(1 << 14)), seconds=60).value == (True, False)


def test_a_large_fresh_buffer_costs_a_fault_a_page():
    with at_most(1):
        cost = measure_fresh_buffer(LARGE, rounds=4)
    assert 0.9 * PAGES < cost.faults < 1.1 * PAGES or cost.faults < PAGES / 100  # large pages
    assert cost.seconds > 0


def test_the_faults_of_another_thread_are_not_counted():
    def touch() -> None:
        bytearray(LARGE)[::4096] = bytes(len(range(0, LARGE, 4096)))

    before = faults_of_this_thread()
    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()
    assert faults_of_this_thread() - before < PAGES // 10
    touch()
    assert faults_of_this_thread() - before > PAGES // 10
