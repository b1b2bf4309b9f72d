"""Excerpts and diffs: the right lines, the right columns, counts instead of repetition."""

from __future__ import annotations

from gradwright.doctor.render.excerpt import diff_body, excerpt
from gradwright.doctor.session.place import Location


def numbers(lines):
    return [line.number for line in lines]


def test_two_lines_stand_before_the_marked_one_unless_a_blank_line_parts_them():
    assert numbers(excerpt("a\nb\nc\nd\n", Location("", 4))) == [2, 3, 4]
    assert numbers(excerpt("a\nb\n\nd\n", Location("", 4))) == [4]


def test_line_whose_columns_are_unknown_is_marked_whole():
    assert excerpt("    x = 1  # one\n", Location("", 1))[0].parts == ("    ", "x = 1  # one", "")


def test_place_of_many_lines_shows_the_first_four_and_marks_from_its_column():
    lines = excerpt("".join(f"x = f({at})\n" for at in range(9)), Location("", 2, 5, 9, 3))
    assert numbers(lines) == [1, 2, 3, 4, 5]
    assert [line.parts[1] for line in lines] == ["", "f(1)", "", "", ""]


def test_hot_expression_far_below_its_loop_is_shown_after_a_gap():
    text = "for i in r:\n" + "    y = i\n" * 20
    lines = excerpt(text, Location("", 1, 1, 1, 4), Location("", 15, 9, 15, 10), "20 times")
    assert numbers(lines) == [1, 0, 13, 14, 15]
    assert (lines[-1].parts[1], lines[-1].label) == ("i", "20 times")


def test_lines_are_counted_as_python_counts_them():
    text = "a = '\x0c'\r\nb = '\u2028'\rc = 1\n"
    assert excerpt(text, Location("", 3, 1, 3, 2))[-1].text == "c = 1"


def test_deep_indentation_is_cut_and_the_mark_moves_with_it():
    line = excerpt(" " * 40 + "x = y\n", Location("", 1, 45, 1, 46))[0]
    assert line.parts == ("    x = ", "y", "")


def test_removed_lines_that_stand_above_are_counted_and_others_shown():
    diff = "--- a\n+++ b\n@@ -1,3 +1,2 @@\n c\n-x\n-y\n+z\n"
    assert [(line.sign, line.text) for line in diff_body(diff, frozenset({2, 3}))] == [("-", "2 lines"), ("+", "z")]
    assert [(line.sign, line.text) for line in diff_body(diff, frozenset({2}))] == [("-", "x"), ("-", "y"), ("+", "z")]


def test_changed_lines_that_look_like_a_header_of_a_diff_are_lines():
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n--- x\n+++ y\n"
    assert [(line.sign, line.text) for line in diff_body(diff)] == [("-", "-- x"), ("+", "++ y")]


def test_long_change_is_cut_with_a_count():
    diff = "--- a\n+++ b\n@@ -0,0 +1,30 @@\n" + "".join(f"+line {at}\n" for at in range(30))
    body = diff_body(diff)
    assert len(body) == 13
    assert body[-1].text == "... 18 more lines"


def test_every_hunk_is_dedented_on_its_own():
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-    a\n+        b\n@@ -9 +9 @@\n-  c\n+  d\n\\ No newline at end of file\n"
    assert [line.text for line in diff_body(diff)] == ["a", "    b", "c", "d"]
