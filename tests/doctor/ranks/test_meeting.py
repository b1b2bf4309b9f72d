"""Ranks of one run on one machine find each other, and nobody else's files."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gradwright.doctor.ranks.meeting import HandedOver, Meeting, folder_of
from gradwright.errors import GradwrightError

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def test_a_session_is_handed_over(rank_of: Any) -> None:
    with Meeting(rank_of(0)) as first, Meeting(rank_of(1)) as second:
        assert first.handed_over(1) is None and not first.script_of_is_over(1)
        second.script_is_over()
        assert first.script_of_is_over(1) and first.handed_over(1) is None
        second.hand_over(HandedOver("/a/last.rank1.json", "it failed"))
        assert first.handed_over(1) == HandedOver("/a/last.rank1.json", "it failed")


def test_a_rank_lives_for_as_long_as_it_holds_its_lock(rank_of: Any) -> None:
    with Meeting(rank_of(0)) as first:
        assert not first.is_here(1) and not first.is_alive(1)
        with Meeting(rank_of(1)):
            assert first.is_here(1) and first.is_alive(1)
        assert first.is_here(1) and not first.is_alive(1)


def test_the_folder_is_private_and_goes_with_its_leader(rank_of: Any) -> None:
    with Meeting(rank_of(0)) as first:
        assert first.folder.stat().st_mode & 0o777 == 0o700
        with Meeting(rank_of(1)):
            pass
        assert first.folder.exists()
    assert not first.folder.exists()


def test_what_a_killed_run_left_behind_is_not_read(rank_of: Any) -> None:
    folder = folder_of(rank_of(0))
    long_ago = time.time() - 3600
    for name in ("alive.1", "over.1", "done.1"):
        (folder / name).write_text(json.dumps(long_ago if name == "alive.1" else {"began": long_ago, "session": "old"}))
    (folder / "stop").write_text('["steps", 1]')
    (folder / "done.0").write_text("{}")
    with Meeting(rank_of(0)) as first:
        assert not first.is_here(1) and not first.script_of_is_over(1) and first.handed_over(1) is None
        assert not (folder / "stop").exists() and not (folder / "done.0").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"began": "now"}', '{"session": "x"}'])
def test_a_word_that_is_none_is_not_believed(text: str, rank_of: Any) -> None:
    with Meeting(rank_of(0)) as first:
        (first.folder / "done.1").write_text(text)
        assert first.handed_over(1) is None


def test_a_folder_that_others_can_write_to_is_refused(rank_of: Any) -> None:
    folder_of(rank_of(0)).chmod(0o777)
    with pytest.raises(GradwrightError, match="not this user's alone"):
        Meeting(rank_of(0))


def test_a_link_in_its_place_is_refused(rank_of: Any, tmp_path: Path) -> None:
    folder = folder_of(rank_of(0))
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GradwrightError, match="set TMPDIR"):
        Meeting(rank_of(0))


def test_a_rank_that_was_given_up_does_not_fail(rank_of: Any) -> None:
    with Meeting(rank_of(1)) as second:
        with Meeting(rank_of(0)):
            pass
        second.hand_over(HandedOver("late"))
