"""All ranks stop after the same step, however their steps fall in time."""

import random
from pathlib import Path

import pytest

from gradwright.doctor.observe.clock import Clock, StoppedEarly
from gradwright.doctor.options import Options
from gradwright.doctor.ranks import stopping
from gradwright.doctor.ranks.stopping import AgreedClock, clock_of


def trained(folder: Path, seed: int, ranks: int = 3, time_up: int = 5, unit: str = "steps") -> list[int]:
    """After which step each rank stopped, in synchronous training: none ends step n + 1 before all have ended n.

    The order within that is drawn. The leader's time is up after step ``time_up``.
    """
    drawn = random.Random(seed)
    (folder / "stop").unlink(missing_ok=True)
    clocks = [AgreedClock(None, 60.0, folder, leads=rank == 0) for rank in range(ranks)]
    clocks[0]._seconds_of_gradients = lambda: 61.0 if counts[0] >= time_up else 0.0  # type: ignore[method-assign]
    counts, stopped = [0] * ranks, [False] * ranks
    while not all(stopped):
        ready = [rank for rank in range(ranks) if not stopped[rank] and counts[rank] <= min(counts)]
        if not ready:
            return counts  # the others wait for one that has stopped: a deadlock
        rank = drawn.choice(ready)
        counts[rank] += 1
        setattr(clocks[rank], unit, counts[rank])
        try:
            clocks[rank].stop_if_enough()
        except StoppedEarly:
            stopped[rank] = True
        assert max(counts) < 50
    return counts


@pytest.mark.parametrize("unit", ["steps", "gradients"])
def test_in_any_order_all_stop_after_the_same_step(unit: str, tmp_path: Path) -> None:
    for seed in range(40):
        assert trained(tmp_path, seed, unit=unit) == [7, 7, 7]


def test_one_step_ahead_is_too_late_for_who_has_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "_AHEAD", 0)
    ends = [trained(tmp_path, seed) for seed in range(40)]
    assert any(len(set(counts)) > 1 for counts in ends)


def test_only_the_leader_decides(tmp_path: Path) -> None:
    clock = AgreedClock(None, 60.0, tmp_path, leads=False)
    clock.steps, clock.first_gradient = 10, -1e9
    clock.stop_if_enough()
    (tmp_path / "stop").write_text('["steps", 11]')
    clock.stop_if_enough()
    clock.steps = 11
    with pytest.raises(StoppedEarly, match="60 s after the first gradient"):
        clock.stop_if_enough()


@pytest.mark.parametrize("text", ["", "[]", '["steps"]', '{"steps": 1}', '["steps", "1"]'])
def test_a_word_that_is_none_stops_nobody(text: str, tmp_path: Path) -> None:
    (tmp_path / "stop").write_text(text)
    clock = AgreedClock(None, 60.0, tmp_path, leads=False)
    clock.steps = 10
    clock.stop_if_enough()


def test_steps_are_counted_by_each_rank_itself(tmp_path: Path) -> None:
    clock = AgreedClock(10, 60.0, tmp_path, leads=False)
    clock.steps = 10
    with pytest.raises(StoppedEarly, match="after 10 optimizer steps"):
        clock.stop_if_enough()


def test_which_clock_a_run_gets(tmp_path: Path) -> None:
    lone = clock_of(Options(max_steps=3, max_seconds=4.0))
    assert type(lone) is Clock and (lone.max_steps, lone.max_seconds) == (3, 4.0)
    endless = clock_of(Options(to_end=True, meeting=str(tmp_path), agreed=True))
    assert (endless.max_steps, endless.max_seconds) == (None, None)
    several_machines = clock_of(Options(max_steps=3, meeting=str(tmp_path)))
    assert type(several_machines) is Clock and (several_machines.max_steps, several_machines.max_seconds) == (3, None)
    assert isinstance(clock_of(Options(meeting=str(tmp_path), agreed=True)), AgreedClock)
