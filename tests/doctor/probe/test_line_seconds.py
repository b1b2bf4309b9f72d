"""The time of a call belongs to the lines that take it. The clock is a list of seconds: nothing hangs on a real one."""

import sys
import types
from collections.abc import Callable, Iterator

import pytest
import torch

from gradwright.doctor.probe.line_seconds import Taken, medians, own_seconds, several, time_call

Seconds = list[float]


def elsewhere(function: Callable[..., object]) -> Callable[..., object]:
    """The same, as code that is not the user's."""
    assert isinstance(function, types.FunctionType)
    return types.FunctionType(function.__code__.replace(co_filename="<elsewhere>"), globals())


def heavy_and_light(spent: Seconds) -> None:
    spent.append(50.0)
    spent.append(1.0)


def through_a_helper(spent: Seconds) -> None:
    for _ in range(3):
        heavy_and_light(spent); spent.append(2.0)  # fmt: skip  # noqa: E702
    spent.append(4.0)


def through_other_code(spent: Seconds) -> None:
    elsewhere(heavy_and_light)(spent)
    spent.append(1.0)


def through_a_generator(spent: Seconds) -> None:
    def numbers() -> Iterator[int]:
        spent.append(8.0)
        yield 1
        spent.append(16.0)

    for _ in numbers():
        spent.append(1.0)


def through_a_raise(spent: Seconds) -> None:
    def fails() -> None:
        spent.append(8.0)
        raise ValueError

    try:
        fails()
    except ValueError:
        spent.append(1.0)
    spent.append(2.0)


def timed(function: Callable[[Seconds], None], own: float = 0.0, seconds: float = 10.0) -> Taken:
    """Seconds are told by the line's place in ``function``."""
    spent: Seconds = []

    def work() -> None:
        spent.append(1000.0)
        function(spent)
        spent.append(1000.0)

    return time_call(elsewhere_closing(work), seconds, clock=lambda: sum(spent), own=own)


def elsewhere_closing(work: Callable[[], None]) -> Callable[[], None]:
    assert isinstance(work, types.FunctionType)
    code = work.__code__.replace(co_filename="<elsewhere>")
    return types.FunctionType(code, globals(), closure=work.__closure__)


def by_line(function: types.FunctionType, taken: Taken) -> dict[int, float]:
    first = function.__code__.co_firstlineno
    return {line - first: seconds for (code, line), seconds in taken.lines.items() if seconds}


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (heavy_and_light, {1: 50.0, 2: 1.0}),
        (through_other_code, {1: 51.0, 2: 1.0}),
        (through_a_generator, {2: 8.0, 4: 16.0, 7: 1.0}),
        (through_a_raise, {2: 8.0, 8: 1.0, 9: 2.0}),
    ],
)
def test_each_line_has_its_own_time(function: types.FunctionType, lines: dict[int, float]) -> None:
    taken = timed(function)
    assert by_line(function, taken) == lines
    assert taken.rest == 2000.0 and taken.complete
    assert taken.all == 2000.0 + sum(lines.values())


def test_what_a_helper_takes_is_the_helpers_and_the_rest_of_the_line_the_callers() -> None:
    taken = timed(through_a_helper)
    own = {line: value for (code, line), value in taken.lines.items() if code is through_a_helper.__code__ and value}
    helpers = {line: value for (code, line), value in taken.lines.items() if code is heavy_and_light.__code__ and value}
    assert list(own.values()) == [6.0, 4.0]
    assert list(helpers.values()) == [150.0, 3.0]


def test_other_code_is_gone_through_where_it_is_asked_for() -> None:
    spent: Seconds = []
    work = elsewhere(heavy_and_light)
    taken = time_call(lambda: work(spent), 10.0, files={"<elsewhere>"}, clock=lambda: sum(spent))
    assert {code.co_filename: 0 for code, _ in taken.lines}.keys() == {"<elsewhere>", __file__}
    assert sorted(value for (code, _), value in taken.lines.items() if code.co_filename != __file__)[-2:] == [1.0, 50.0]


def test_what_a_look_at_the_clock_costs_is_taken_off_each_look_and_nothing_becomes_negative() -> None:
    assert by_line(heavy_and_light, timed(heavy_and_light, own=0.25)) == {1: 49.75, 2: 0.75}
    assert by_line(heavy_and_light, timed(heavy_and_light, own=3.0)) == {1: 47.0}


def test_a_look_at_the_clock_costs_nothing_on_a_clock_that_stands_still_and_something_on_a_real_one() -> None:
    assert own_seconds(lambda: 7.0) == 0.0
    assert 0.0 < own_seconds() < 1e-4


def test_what_a_line_has_only_queued_is_waited_for_and_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: Seconds = []
    queued: Seconds = []

    def queueing() -> None:
        queued.append(50.0)
        queued.append(1.0)

    def wait(device: object) -> None:
        spent.extend(queued)
        queued.clear()

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    assert list(time_call(queueing, 10.0, clock=lambda: sum(spent)).lines.values())[-2:] == [50.0, 1.0]


def test_a_gpu_that_is_not_the_current_one_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    devices = [torch.device("cpu"), torch.device("cuda", 1), torch.device("cuda", 1)]
    time_call(lambda: None, 10.0, devices=devices)
    assert waited == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    time_call(lambda: None, 10.0, devices=devices)
    assert set(waited) == {None, torch.device("cuda", 1)}


def test_what_takes_too_long_is_cut_off_and_says_so() -> None:
    def endless(spent: Seconds) -> None:
        while True:
            spent.append(1.0)

    assert not timed(endless, seconds=-1.0).complete


@pytest.mark.parametrize("function", [heavy_and_light, through_a_raise])
def test_tracing_is_what_it_was_before(function: types.FunctionType) -> None:
    before = sys.gettrace()
    timed(function)
    assert sys.gettrace() is before


def test_tracing_is_what_it_was_where_the_call_raises() -> None:
    def fails(spent: Seconds) -> None:
        raise KeyError("no")

    before = sys.gettrace()
    with pytest.raises(KeyError):
        timed(fails)
    assert sys.gettrace() is before


def test_of_several_calls_the_median_counts_and_of_none_that_ended_the_first() -> None:
    line = heavy_and_light.__code__, 1
    calls = [Taken({line: seconds}, rest=seconds) for seconds in (1.0, 100.0, 3.0)]
    assert medians(calls) == Taken({line: 3.0}, rest=3.0)
    cut = Taken({line: 9.0}, complete=False)
    assert medians([cut, *calls]) == Taken({line: 3.0}, rest=3.0)
    assert medians([cut, cut]) is cut


def test_a_line_that_one_of_three_calls_ran_took_no_time_in_the_median_call() -> None:
    line = heavy_and_light.__code__, 1
    assert medians([Taken({line: 9.0}), Taken(), Taken()]).lines == {line: 0.0}


def test_a_long_call_is_timed_once_and_each_phase_by_itself() -> None:
    owns = []

    def once(own: float) -> list[Taken]:
        owns.append(own)
        return [Taken(rest=1.0), Taken(rest=2.0)]

    assert [phase.rest for phase in several(once, enough=-1.0)] == [1.0, 2.0]
    assert len(owns) == 1
    several(once, enough=10.0)
    assert len(owns) == 6
