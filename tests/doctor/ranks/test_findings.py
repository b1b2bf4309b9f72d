"""Which findings of two ranks are one, and what is said of one that only some have."""

from typing import Any

import pytest

from gradwright.doctor.ranks.findings import merge_findings
from gradwright.doctor.session.facts import LoopsTreated
from gradwright.doctor.session.model import Finding, NotExamined, Report


def told(*reports: Report) -> list[Finding]:
    return [one.merged() for one in merge_findings(dict(enumerate(reports)))]


def test_numbers_in_a_message_make_no_other_finding(make: Any) -> None:
    first = make.finding(message="the loss is 3.25 at step 7, 12 % off")
    other = make.finding(message="the loss is 1e-3 at step 9, 8 % off")
    assert told(make.report(first), make.report(other)) == [first]


def test_one_on_each_rank_at_one_place_is_one(make: Any) -> None:
    first, other = make.finding(message="zero where it is not"), make.finding(message="has the wrong sign")
    assert told(make.report(first), make.report(other)) == [first]


@pytest.mark.parametrize("change", [{"code": "GW102"}, {"line": 10}])
def test_another_code_or_place_is_another_finding(change: Any, make: Any) -> None:
    found = told(make.report(make.finding()), make.report(make.finding(**change)))
    assert [one.message.rpartition(" (")[2] for one in found] == ["on rank 0 only)", "on rank 1 only)"]


def test_two_at_one_place_are_matched_by_their_words(make: Any) -> None:
    x, w = make.finding(message="half the gradient of x"), make.finding(message="half the gradient of w")
    found = told(make.report(x, w), make.report(w))
    assert [one.message for one in found] == ["half the gradient of x (on rank 0 only)", "half the gradient of w"]


def test_of_many_ranks_those_are_named_that_have_it(make: Any) -> None:
    with_it, without = make.report(make.finding()), make.report()
    (found,) = told(without, with_it, with_it, without)
    assert found.message.endswith("(on ranks 1 and 2 only)")


def test_a_rank_that_did_not_look_has_not_found_nothing(make: Any) -> None:
    blind = make.report(NotExamined("the rest of Square", "the 25 s for trying were used up"))
    (found,) = told(make.report(make.finding()), blind)
    assert found.message == make.finding().message
    (found,) = told(blind, make.report(make.finding()))
    assert found.message.endswith("of x (on rank 1)")


def test_what_hangs_on_time_is_not_said_to_be_of_one_rank_only(make: Any) -> None:
    slow = make.finding("GW301", "99 % of the step", category="speed")
    assert told(make.report(slow), make.report()) == [slow]
    (found,) = told(make.report(), make.report(slow))
    assert found.message == "99 % of the step (on rank 1)"


def test_what_rests_on_fixes_is_the_leaders_to_say(make: Any) -> None:
    treated = LoopsTreated(id="treated", subject="script", told=())
    finding = make.finding(evidence=("treated",))
    assert told(make.report(treated, finding), make.report()) == [finding]


def test_errors_come_first(make: Any) -> None:
    info = make.finding("GW303", "not needed", severity="info")
    found = told(make.report(info), make.report(info, make.finding()))
    assert [one.code for one in found] == ["GW101", "GW303"]


def test_what_was_suppressed_stays_suppressed(make: Any) -> None:
    quiet = Report(subjects=(make.square,), suppressed=(make.finding(),))
    found = merge_findings({0: quiet, 1: quiet})
    assert [(one.suppressed, one.ranks) for one in found] == [(True, [0, 1])]
