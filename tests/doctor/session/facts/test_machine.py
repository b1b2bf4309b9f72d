"""How far a call is from what the machine could do: said where it is known, and of the right thing."""

import dataclasses

import pytest

from gradwright.doctor.session.codec import from_json, to_json
from gradwright.doctor.session.facts import LineCost, MachineLimits, OpsPerLine
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location

LIMITS = MachineLimits(
    id="machine", subject="script", bytes_per_second=1e10, flops_per_second=1e11, operation_seconds=2e-6, threads=2
)
COSTS = OpsPerLine(
    id="o", subject="s", phase="backward", operations=3, bytes=8_000_000, minimum_bytes=1_000_000, seconds=1e-3,
    tried_on="x", flops=5_000_000, lines=(LineCost(location=Location("t.py", 3), operations=3, scalar_operations=0,
    bytes=8, seconds=5e-4),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("minimum_bytes", "flops", "seconds"),
    [(1_000_000, 0, 1e-4), (1_000_000, 10**9, 1e-2), (0, 10**9, 1e-2), (8, 8, 2e-6), (0, 0, 0.0)],
)
def test_the_floor_is_the_largest_of_moving_computing_and_dispatching(
    minimum_bytes: int, flops: int, seconds: float
) -> None:
    assert LIMITS.floor(minimum_bytes, flops) == pytest.approx(seconds)


def test_the_distance_is_how_many_times_as_long_a_call_takes() -> None:
    assert LIMITS.distance(COSTS) == pytest.approx(10.0)
    assert LIMITS.distance(dataclasses.replace(COSTS, flops=5 * 10**7)) == pytest.approx(2.0)


@pytest.mark.parametrize("change", [{"shrunk": True}, {"minimum_bytes": 0}, {"seconds": 0.0}])
def test_no_distance_is_told_where_it_is_not_known(change: dict[str, float]) -> None:
    assert LIMITS.distance(dataclasses.replace(COSTS, **change)) is None


def test_limits_that_were_not_measured_hold_nothing_up() -> None:
    none = dataclasses.replace(LIMITS, bytes_per_second=0.0, flops_per_second=0.0)
    assert none.floor(10**9, 10**9) == LIMITS.operation_seconds


def test_a_session_keeps_them() -> None:
    report = Report(facts=(LIMITS, COSTS))
    assert from_json(to_json(report)).facts == report.facts
