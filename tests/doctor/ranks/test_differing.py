"""What ranks did differently is told; what differs rightly is not."""

import dataclasses
from typing import Any

import pytest

from gradwright.doctor.ranks.differing import differences
from gradwright.doctor.ranks.findings import merge_findings
from gradwright.doctor.ranks.lost_peers import fates_of
from gradwright.doctor.session.model import Environment, Report


def between(*reports: Report) -> dict[str, tuple[str, ...]]:
    found = dict(enumerate(reports))
    facts = differences(found, merge_findings(found), fates_of(found, ()).ends)
    assert len({fact.id for fact in facts}) == len(facts)
    return {fact.what: tuple(word for _, word in fact.values) for fact in facts}


def test_seconds_and_losses_differ_rightly(make: Any) -> None:
    first = make.report(make.calls(10), make.values(), seconds=3.0)
    other = make.report(make.calls(10), dataclasses.replace(make.values(), last=7.0), seconds=9.0)
    assert between(first, other) == {}


def test_one_rank_does_not_differ(make: Any) -> None:
    assert between(make.report(make.calls(3))) == {}


def test_steps_and_ends(make: Any) -> None:
    assert between(make.report(), make.report(steps=8, gradients=8, exit_code=3)) == {
        "how the script ended": ("exited 0", "exited 3"),
        "steps": ("10", "8"),
    }


def test_a_thousand_steps_read_as_such(make: Any) -> None:
    assert between(make.report(steps=1000), make.report(steps=1001))["steps"] == ("1,000", "1,001")


def test_fewer_steps_bring_fewer_calls(make: Any) -> None:
    assert set(between(make.report(make.calls(20)), make.report(make.calls(16), steps=8, gradients=8))) == {"steps"}


def test_a_step_that_was_begun_is_no_difference(make: Any) -> None:
    stopped = make.report(make.calls(11), gradients=11, stopped_early="its time was up")
    assert set(between(stopped, make.report(make.calls(10)))) == {"how the script ended"}


@pytest.mark.parametrize("number", [9, 11, 20])
def test_other_calls_in_as_many_whole_steps(number: int, make: Any) -> None:
    found = between(make.report(make.calls(10)), make.report(make.calls(number), gradients=number))
    assert found == {"gradient calls": ("10", str(number)), "calls of Square": ("10", str(number))}


def test_a_function_that_one_rank_never_called(make: Any) -> None:
    assert between(make.report(make.calls(10)), make.report()) == {"Square": ("called 10 times", "never called")}


def test_verdicts(make: Any) -> None:
    right, wrong = (make.report(make.calls(10), make.verdict(word)) for word in ("right", "wrong"))
    assert between(right, wrong) == {"gradient of Square": ("right", "wrong")}
    assert between(right, make.report(make.calls(10))) == {}
    assert between(right, make.report(make.calls(10), make.verdict("unknown"))) == {}


def test_inputs_where_each_call_had_the_same(make: Any) -> None:
    first, other = make.report(make.calls(9), make.specimen(8, 4)), make.report(make.calls(9), make.specimen(6, 4))
    assert between(first, other) == {"inputs of Square": ("float32[8, 4]", "float32[6, 4]")}
    varied = make.report(make.calls(9), make.specimen(6, 4), make.specimen(5, 4, number=1))
    assert between(first, varied) == {}


def test_a_loss_that_is_not_finite_on_one_rank(make: Any) -> None:
    first, other = make.report(make.values()), make.report(make.values(nan_at=5))
    assert between(first, other) == {"the loss at train.py:40": ("finite", "nan at step 5")}
    assert between(other, make.report(make.values(nan_at=6))) == {}


PARTED = "parameters that DDP keeps alike, summed up after step 2"


def test_replicas_that_part(make: Any) -> None:
    first = make.report(make.replicas((1, 3.0, 9.0), (2, 3.5, 9.0), (4, 7.0, 9.0)))
    other = make.report(make.replicas((1, 3.0, 9.0), (2, 3.25, 9.0)))
    assert between(first, other) == {PARTED: ("3.5", "3.25")}


@pytest.mark.parametrize(
    "sums",
    [((1, 3.0, 9.0), (2, 3.5, 9.0)), ((1, 3.1, 9.0), (2, 3.5, 9.0)), ((2, 3.5 + 8e-7, 9.0),), ((8, 4.0, 9.0),),
     ((2, float("nan"), float("nan")),)],
)  # fmt: skip
def test_replicas_that_are_alike_or_were_not_looked_at_together(sums: Any, make: Any) -> None:
    first = make.report(make.replicas((1, 3.0, 9.0), (2, 3.5, 9.0)))
    assert between(first, make.report(make.replicas(*sums))) == {}


def test_replicas_of_other_parameters_or_machines_are_not_compared(make: Any) -> None:
    first = make.report(make.replicas((2, 3.5, 9.0)))
    assert between(first, make.report(make.replicas((2, 9.5, 9.0), parameters="b"))) == {}
    assert between(first, make.report()) == {}
    other = dataclasses.replace(make.report(make.replicas((2, 9.5, 9.0))), environment=Environment(device="H100"))
    assert between(first, other) == {"device": ("", "H100")}


def test_versions_and_devices(make: Any) -> None:
    first, other = (
        dataclasses.replace(make.report(), environment=Environment(torch=version, device=device))
        for version, device in (("2.13", "cpu"), ("2.12", "H100"))
    )
    assert between(first, other) == {"torch": ("2.13", "2.12"), "device": ("cpu", "H100")}


def test_findings(make: Any) -> None:
    found = between(make.report(), make.report(make.finding()))
    assert found == {"GW101 at train.py:9": ("not found", "found")}
    slow = make.finding("GW301", "99 % of the step", category="speed")
    assert between(make.report(), make.report(slow)) == {}
