"""Work in this process: a value, an exception or the end of its time; and nothing left behind."""

import time

from gradwright.ground.watchdog import under_watchdog


def test_a_value_and_an_exception_come_back() -> None:
    assert under_watchdog(lambda: 5, seconds=5).value == 5
    assert under_watchdog(lambda: 1 / 0, seconds=5).why.startswith("ZeroDivisionError")


def test_what_never_ends_is_interrupted() -> None:
    def endless() -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass

    started = time.monotonic()
    assert under_watchdog(endless, seconds=0.3).how == "out of time"
    assert time.monotonic() - started < 5


def test_the_dog_does_not_bark_afterwards() -> None:
    under_watchdog(lambda: 5, seconds=0.05)
    time.sleep(0.2)
