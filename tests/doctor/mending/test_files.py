"""What is not changed stays, byte for byte: encoding, byte order mark, line ends, tabs."""

from __future__ import annotations

import pytest

from gradwright.doctor.mending.files import NotWritable, byte_lines, read_text
from gradwright.doctor.session.hunks import Edit


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nBB\r\nc\r\n"),
        (b"a\rb\rc\r", b"a\rB\rBB\rc\r"),
        (b"a\nb\r\nc\n", b"a\nB\r\nBB\r\nc\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nBB\nc"),
        (b"# coding: latin-1\nb\nx = '\xe9'\n", b"# coding: latin-1\nB\nBB\nx = '\xe9'\n"),
        (b"\ta\n\tb\n\tc\x0c\n", b"\ta\nB\nBB\n\tc\x0c\n"),
    ],
    ids=["CRLF", "CR", "mixed", "byte order mark", "latin-1", "tabs and form feed"],
)
def test_edited_lines_end_as_the_ones_they_replace_and_all_else_stays(data: bytes, wanted: bytes):
    text = read_text(data)
    assert text.with_edits([Edit(1, 2, ("B\n", "BB\n"))]) == wanted
    assert text.with_edits([]) == data


def test_an_inserted_line_ends_as_its_neighbour():
    assert read_text(b"a\r\nb").with_edits([Edit(1, 1, ("x\n",))]) == b"a\r\nx\r\nb"
    assert read_text(b"a").with_edits([Edit(0, 0, ("x\n",))]) == b"x\na"
    assert read_text(b"").with_edits([Edit(0, 0, ("x\n",))]) == b"x\n"


def test_a_letter_that_the_encoding_does_not_have_is_refused_by_name():
    with pytest.raises(NotWritable, match=r"'→'.*iso-8859-1.*UTF-8"):
        read_text(b"# coding: latin-1\nx = 1\n").with_edits([Edit(1, 2, ("x = 2  # →\n",))])


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"# coding: nonsense\nx = 1\n", "nonsense"),
        (b"x = '\xe9'\n", "encoding"),
        (b"# coding: iso-2022-jp\nx = 1  # \x1b(B\n", "byte for byte"),
    ],
    ids=["unknown", "not UTF-8", "not reversible"],
)
def test_what_cannot_be_written_back_as_it_was_is_refused(data: bytes, word: str):
    with pytest.raises(NotWritable, match=word):
        read_text(data)


def test_lines_for_patch_end_at_newlines_only():
    assert byte_lines(b"a\rb\x0bc\x85\nd\r\n\xff") == ["a\rb\x0bc\x85\n", "d\r\n", "\xff"]
