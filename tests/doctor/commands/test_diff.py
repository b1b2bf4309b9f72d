"""``gradwright diff``: a gate that closes when something is worse."""

from __future__ import annotations

import dataclasses
import json

import pytest

from gradwright.doctor.comparing import compare
from gradwright.doctor.comparing.shown import as_text
from gradwright.doctor.session.model import Report


@pytest.fixture
def sessions(make, keep):
    """The second has one finding less, and calls that take three times as long."""
    old = make.first_sight()
    slower = tuple(
        dataclasses.replace(fact, backward_seconds=3 * fact.backward_seconds) if fact.id == "calls Scale" else fact
        for fact in old.facts
    )
    new = dataclasses.replace(old, findings=old.findings[1:], facts=slower)
    keep(old, "old.json")
    keep(new, "new.json")
    return old, new


def test_exit_codes_are_0_nothing_worse_1_worse_2_unreadable(sessions, call):
    assert call("diff", "old.json", "new.json").exit_code == 0
    assert call("diff", "new.json", "old.json").exit_code == 1
    assert call("diff", "old.json", "old.json").exit_code == 0
    for words in ((), ("old.json", "nowhere.json"), ("old.json", "new.json", "--factor", "1"), ("old.json",)):
        assert call("diff", *words).exit_code == 2


def test_the_comparison_is_printed(sessions, call):
    old, new = sessions
    called = call("diff", "old.json", "new.json")
    assert called.stdout == as_text(compare(old, new), width=100, color=False)
    assert (
        "(no longer found)" in called.stdout and "Scale.backward: 35 us -> 105 us (3.0 times as long)" in called.stdout
    )
    assert json.loads(call("diff", "old.json", "new.json", "--format", "json").stdout)["worse"] is False


def test_times_decide_only_where_that_is_asked_for(sessions, call):
    assert call("diff", "old.json", "new.json", "--gate-times").exit_code == 1
    called = call("diff", "old.json", "new.json", "--gate-times", "--factor", "4")
    assert called.exit_code == 0 and "noisy" not in called.stdout


def test_the_last_session_is_the_new_one(sessions, keep, call):
    old, _ = sessions
    keep(old)
    assert call("diff", "new.json").exit_code == 1


def test_codes_narrow_both_sides(sessions, call):
    assert call("diff", "new.json", "old.json", "--ignore", "GW301").exit_code == 0
    assert call("diff", "new.json", "old.json", "--select", "GW1").exit_code == 0
    assert call("diff", "new.json", "old.json", "--select", "GW3").exit_code == 1


def test_a_gate_does_not_open_for_what_cannot_be_compared(sessions, keep, call):
    old, _ = sessions
    keep(dataclasses.replace(old, script=dataclasses.replace(old.script, argv=("other.py",))), "other.json")
    unwatched = dataclasses.replace(old.script, steps=0, gradients=0, exit_code=1)
    keep(dataclasses.replace(old, script=unwatched, subjects=(), facts=(), findings=()), "dead.json")
    keep(Report(), "empty.json")
    for new, why in (
        ("other.json", "two scripts"),
        ("dead.json", "nothing was watched in the new one"),
        ("empty.json", "two scripts, train.py and no script"),
    ):
        called = call("diff", "old.json", new)
        assert (called.exit_code, called.stdout) == (2, "")
        assert "can't be compared" in called.stderr and why in called.stderr
