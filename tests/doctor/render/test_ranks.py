"""What the faces say of several ranks."""

import dataclasses
from typing import Any

import pytest

from gradwright.doctor.render import fragment, terminal
from gradwright.doctor.render.page.verdicts import strip
from gradwright.doctor.render.ranks import between
from gradwright.doctor.render.view import view
from gradwright.doctor.session.facts import RankRun, RanksDiffer
from gradwright.doctor.session.model import Report


def run(rank: int, world_size: int = 2, missing: str = "") -> RankRun:
    return RankRun(id=f"run {rank}", subject="script", rank=rank, world_size=world_size, session="", missing=missing)


def differ(what: str, *words: str) -> RanksDiffer:
    return RanksDiffer(id=what, subject="script", what=what, values=tuple(enumerate(words)))


@pytest.fixture
def report(make: Any) -> Any:
    def of(*facts: Any) -> Report:
        return Report(script=make.script, facts=facts)

    return of


def test_the_headline_counts_them(report: Any) -> None:
    assert "· 2 ranks ·" in terminal.render(report(run(0), run(1)))
    assert "· 2 of 16 ranks ·" in terminal.render(report(run(0, 16), run(1, 16)))
    alone = report()
    assert "rank" not in terminal.render(alone)
    one = dataclasses.replace(alone, script=dataclasses.replace(alone.script, rank=3))
    assert "· rank 3 ·" in terminal.render(one)


def test_a_page_of_a_rank_that_ended_ill_is_not_good(report: Any) -> None:
    ill = dataclasses.replace(run(1), unexplained="exited 7")
    for runs, tone in (
        ((run(0), run(1)), "good"),
        ((run(0), ill), "doubt"),
        ((run(0), run(1, missing="gone")), "doubt"),
    ):
        found = report(*runs)
        assert strip(found, view(found)).tone == tone


def test_a_line_for_each_difference(report: Any) -> None:
    found = report(run(0), run(1), differ("steps", "40", "38"))
    assert "  between ranks\n    steps: 40 on rank 0, 38 on rank 1\n" in terminal.render(found)
    assert "<li>steps: 40 on rank 0, 38 on rank 1</li>" in fragment.render(found)


def test_ranks_that_are_alike_share_a_word(report: Any) -> None:
    assert between(report(differ("steps", "40", "38", "40"))) == ("steps: 40 on ranks 0 and 2, 38 on rank 1",)


def test_no_block_without_a_difference(report: Any) -> None:
    found = report(run(0), run(1))
    assert between(found) == () and "between ranks" not in terminal.render(found) + fragment.render(found)


def test_a_missing_rank_says_why_and_a_finding_is_not_told_twice(report: Any) -> None:
    lines = between(report(run(0), run(1, missing="it was gone"), differ("GW101 at train.py:3", "found", "not found")))
    assert lines == ("rank 1 has no session: it was gone",)


def test_of_many_differences_the_first(report: Any) -> None:
    lines = between(report(*(differ(f"thing {number}", "a", "b") for number in range(20))))
    assert len(lines) == 9 and lines[-1] == "and 12 more differences, all in the JSON"


def test_hostile_words_are_shown_as_words(report: Any) -> None:
    found = report(differ("<b>\x1b[31mcalls\x07", "<script>", "\u202eone"))
    assert between(found) == ("<b>calls: <script> on rank 0, one on rank 1",)
    assert "<script>" not in fragment.render(found) and "&lt;script&gt;" in fragment.render(found)
