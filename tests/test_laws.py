"""A table's laws are all asked of each case, and each broken one is told."""

import pytest
from tests.laws import Laws, LawsBroken


def some_laws(asked: list[str]) -> Laws[int]:
    laws = Laws[int]()

    @laws
    def it_is_even(case: int) -> None:
        asked.append("even")
        assert case % 2 == 0

    @laws.where(lambda case: case > 10)
    def large_ones_divide_by_five(case: int) -> None:
        asked.append("five")
        if case % 5:
            raise ValueError(f"{case} leaves {case % 5}")

    return laws


def test_a_case_that_keeps_them_passes() -> None:
    asked: list[str] = []
    some_laws(asked).hold(20)
    assert asked == ["even", "five"]


def test_a_law_is_asked_where_it_applies_alone() -> None:
    asked: list[str] = []
    some_laws(asked).hold(4)
    assert asked == ["even"]


def test_a_law_that_expects_an_error_and_meets_none_is_broken_like_any_other() -> None:
    laws, asked = Laws[int](), []

    @laws
    def it_raises(case: int) -> None:
        with pytest.raises(ValueError, match="no"):
            pass

    laws(lambda case: asked.append(case))
    with pytest.raises(LawsBroken, match="it_raises"):
        laws.hold(1)
    assert asked == [1]


def test_every_broken_law_is_told_with_its_assertion_and_its_line() -> None:
    asked: list[str] = []
    with pytest.raises(LawsBroken) as raised:
        some_laws(asked).hold(13)
    assert asked == ["even", "five"]
    told = str(raised.value)
    assert told.startswith("13: 2 of 2 laws are broken")
    assert "it_is_even" in told and "assert (13 % 2) == 0" in told
    assert "large_ones_divide_by_five" in told and "ValueError: 13 leaves 3" in told
    assert told.count("test_laws.py") >= 2
