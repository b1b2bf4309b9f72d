"""Diffs: read without fuzz, written so that patch and git take them."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwright.doctor.session.hunks import DoesNotFit, Edit, applied, edits_of, path_of, unified

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "  c\n", "\n", "-x\n", "+y\n", "@@ -1 +1 @@\n", "--- q\n"]), max_size=14
)
LAST = st.sampled_from(["", "end", "-end"])


@given(LINES, LAST, LINES, LAST)
def test_edits_of_a_diff_make_the_new_text_of_the_old(old, old_last, new, new_last):
    before = [*old, old_last] if old_last else old
    after = [*new, new_last] if new_last else new
    diff = "".join(unified("train.py", before, after))
    if before == after:
        assert diff == ""
        return
    edits = edits_of(diff, before)
    assert applied(edits, before) == after
    assert path_of(diff) == "train.py"
    assert all(one.last < other.first for one, other in itertools.pairwise(edits))


def test_edits_stand_where_the_lines_differ_and_nowhere_else():
    lines = ["one\n", "two\n", "three\n", "four\n"]
    assert edits_of("".join(unified("a", lines, ["one\n", "2\n", "three\n", "four\n", "five\n"])), lines) == (
        Edit(1, 2, ("2\n",)),
        Edit(4, 4, ("five\n",)),
    )


DIFF = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


@pytest.mark.parametrize(
    ("diff", "lines", "word"),
    [
        (DIFF, ["one\n", "TWO\n", "three\n"], "line 2"),
        (DIFF, ["one\n", "two\n", "3\n"], "line 3"),
        (DIFF, ["one\n", "two\n"], "line 3"),
        (DIFF, ["zero\n", "one\n", "two\n", "three\n"], "line 1"),
        (DIFF, ["one\n", "two\n", "three"], "line 3"),
        (DIFF[:-8], ["one\n", "two\n", "three\n"], "cut off"),
        ("", ["one\n"], "changes nothing"),
        ("--- a\n+++ a\n", ["one\n"], "changes nothing"),
    ],
    ids=["removed line", "context", "too short", "moved", "newline", "cut", "empty", "no hunk"],
)
def test_a_diff_of_another_text_is_refused_and_never_fitted(diff, lines, word):
    with pytest.raises(DoesNotFit, match=word):
        edits_of(diff, lines)


@pytest.mark.parametrize("name", ["train.py", "my train.py", 'a "b".py', "größe.py", "tab\there.py", "back\\slash.py"])
@pytest.mark.parametrize("tool", ["patch", "git"])
def test_patch_and_git_take_the_diff_whatever_the_file_is_called(name: str, tool: str, tmp_path: Path):
    (tmp_path / name).write_text("one\ntwo\nthree")
    diff = "".join(unified(name, ["one\n", "two\n", "three"], ["one\n", "2\n", "three\n", "four\n"]))
    command = ["patch", "-p0"] if tool == "patch" else ["git", "apply", "-p0"]
    done = subprocess.run(command, cwd=tmp_path, input=diff.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).read_text() == "one\n2\nthree\nfour\n"
