"""What holds on some ranks only is neither told nor mended for all."""

import dataclasses
from typing import Any

import pytest

from gradwright.doctor.ranks.findings import merge_findings
from gradwright.doctor.ranks.parted_verdicts import without_what_parts
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Finding, Fix, Proof, Report

FIX = Fix("a diff", Proof("verified", ("float32[8, 4]",), 0.0, 1e-5, 3))


@pytest.fixture
def not_needed(make: Any) -> Any:
    """Of a rank whose verdict is right: GW303 rests on it."""
    finding = make.finding("GW303", "Square is not needed", severity="info", category="speed")
    return dataclasses.replace(finding, evidence=(make.verdict("right").id,), fix=FIX)


def judged(make: Any, *findings: Finding, verdict: str = "wrong", **changed: Any) -> Report:
    fact: GradientVerdict = dataclasses.replace(make.verdict(verdict), **changed)
    found = [dataclasses.replace(one, evidence=(fact.id,)) for one in findings]
    return make.report(make.calls(9), fact, *found)  # type: ignore[no-any-return]


def told(*reports: Report) -> tuple[list[Finding], list[str]]:
    by_rank = dict(enumerate(reports))
    kept, said = without_what_parts(merge_findings(by_rank), by_rank, 0)
    return [one.finding for one in kept], [item.what for item in said]


def test_what_rests_on_a_right_gradient_goes_where_another_is_wrong(make: Any, not_needed: Finding) -> None:
    right, wrong = judged(make, not_needed, verdict="right"), judged(make, make.finding())
    for reports in ((right, wrong), (wrong, right), (right, right, wrong)):
        assert [finding.code for finding in told(*reports)[0]] == ["GW101"]


@pytest.mark.parametrize("other", ["right", "unknown", None])
def test_it_stays_where_no_rank_found_it_wrong(other: Any, make: Any, not_needed: Finding) -> None:
    right = judged(make, not_needed, verdict="right")
    found, said = told(right, judged(make, verdict=other) if other else make.report(make.calls(9)))
    assert [finding.code for finding in found] == ["GW303"] and found[0].fix == FIX and not said


def test_a_wrong_gradient_of_another_function_takes_nothing_away(make: Any, not_needed: Finding) -> None:
    right = judged(make, not_needed, verdict="right")
    found, _ = told(right, make.report(make.calls(9, make.scale), make.verdict("wrong", make.scale)))
    assert [finding.fix for finding in found] == [FIX]


def fixed(make: Any) -> Finding:
    return dataclasses.replace(make.finding(), fix=FIX)  # type: ignore[no-any-return]


def test_no_fix_where_it_is_right_on_another_rank(make: Any) -> None:
    found, said = told(judged(make, fixed(make)), judged(make, verdict="right"))
    assert [finding.fix for finding in found] == [None] and said == ["a fix of GW101 at train.py:9"]


def test_no_fix_where_another_rank_has_another_fault(make: Any) -> None:
    half = judged(make, fixed(make), cause="constant factor", factor=0.5)
    thrice = judged(make, fixed(make), cause="constant factor", factor=3.0)
    assert [finding.fix for finding in told(half, thrice)[0]] == [None]


def test_the_fix_stays_where_the_fault_is_the_same(make: Any) -> None:
    factors = [(0.5, 0.1), (0.5000001, 0.2)]
    same = [judged(make, fixed(make), cause="constant factor", factor=f, error=e) for f, e in factors]
    found, said = told(*same)
    assert [finding.fix for finding in found] == [FIX] and not said


def test_another_cause_that_comes_with_the_data_is_another_fault(make: Any) -> None:
    found, _ = told(judged(make, fixed(make), cause="sign"), judged(make, fixed(make), cause="transpose"))
    assert found[0].fix is None
