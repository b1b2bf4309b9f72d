"""The check room's words become facts; what other checks saw is added to those on the same specimen."""

import pytest

from gradwright.checking.cotangents import NEGATED, RANDOM, Tried
from gradwright.checking.report import Gathered, NotChecked
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, InputVerdict
from gradwright.doctor.probe.verdicts import AT_LEVEL_FULL, as_input_verdict, verdict_facts, with_more

WRONG = InputVerdict(
    index=1, name="w", verdict="wrong", cause="sign", factor=-1.0, error=2.0, tolerance=1e-5, at=(0, 2), returned=-1.5,
    expected=1.5, oracles=(AUTOGRAD, DIFFERENCES), checks=7, reason="everywhere", cotangents=((RANDOM, 2.0),),
    details={"factor": -1.0},
)  # fmt: skip
UNTRIED = (("every check but that of the value", "made elsewhere"),)


@pytest.fixture
def fact():
    (made,) = verdict_facts([WRONG], subject="function:F", specimen="F#0", tried_on="float32[3]", untried=UNTRIED)
    return made


def test_a_verdict_and_its_fact_say_the_same(fact):
    assert (fact.input_index, fact.input_name, fact.cotangents, fact.untried) == (1, "w", ((RANDOM, 2.0),), UNTRIED)
    assert as_input_verdict(fact) == WRONG  # but for the details, which do not count


def test_what_other_checks_saw_is_added_by_input(fact):
    tried = [Tried(1, NEGATED, 0.0, 2.5), Tried(0, NEGATED, 0.0, 9.0)]
    skipped = [NotChecked("vmap", "no setup_context"), NotChecked("jvp", "none"), NotChecked("vjp", "no setup_context")]
    more = with_more(fact, Gathered(tried=tried, not_checked=[*skipped, *skipped]))
    assert more.cotangents == ((RANDOM, 2.0), (NEGATED, 2.5)) and more.id == fact.id
    assert more.untried == (*UNTRIED, ("vmap, vjp", "no setup_context"), ("jvp", "none"), AT_LEVEL_FULL)
