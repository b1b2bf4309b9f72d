"""Python's words in their colours: every character of the source, once, whatever the source."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwright.doctor.render.excerpt import Line, excerpt
from gradwright.doctor.render.page.coloured import Coloured
from gradwright.doctor.render.page.text import WIDEST
from gradwright.doctor.session.model import Report, Source
from gradwright.doctor.session.place import Location
from gradwright.ground.forked import in_child

SOURCE = '''@decorated
def half(x, n=0x1F):
    """Half of x,
    for x: if not x."""
    return x / 2.0  # half "of" x
class Twin(half): pass
s = f"{x!r}" + 'it\\'s'
'''


def coloured(text: str) -> Coloured:
    return Coloured(Report(sources=(Source("a.py", "", text),)))


def words(text: str, kind: str) -> list[str]:
    html = "\n".join(line.html for line in coloured(text).numbered("a.py", 1, 10_000))
    return [unescape(found) for found in re.findall(rf'<span class="{kind}">(.*?)</span>', html)]


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_words_have_the_colours_of_what_they_are():
    assert words(SOURCE, "k") == ["def", "return", "class", "pass"]
    assert words(SOURCE, "f") == ["@decorated", "half", "Twin"]
    assert words(SOURCE, "n") == ["0x1F", "2.0"]
    assert words(SOURCE, "c") == ['# half "of" x']
    assert words(SOURCE, "s") == ['"""Half of x,', '    for x: if not x."""', 'f"{x!r}"', "'it\\'s'"]


def test_matrix_product_is_no_decorator():
    assert words("y = x @ w.t()\nz = (a\n     @b)\n", "f") == ["     @b"]  # a guess, and a colour alone


@given(st.text(alphabet="ab \"'#\\\n\t@:0=é\u4e2d\u202e<&>", max_size=80))
def test_no_character_is_lost_or_made(text):
    lines = coloured(text).numbered("a.py", 1, 10_000)
    shown = [re.sub("\u202e", "\ufffd", line.expandtabs(4)).rstrip() for line in text.split("\n")]
    bare = [plain(line.html).strip() for line in lines]
    assert bare == [line.strip() for line in shown]


@given(st.text(alphabet="ab \"'#\n\t<&", min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 9))
def test_excerpt_keeps_its_text_and_its_mark(text, line, column):
    lines = excerpt(text, Location("a.py", line, column, line, column + 3))
    for before, after in zip(lines, coloured(text).excerpt("a.py", lines), strict=True):
        assert plain(after.html) == before.text
        marked = "".join(re.findall("<mark>(.*?)</mark>", after.html))
        assert plain(marked) == before.parts[1]


def test_long_line_is_cut_around_its_mark():
    html = coloured("").excerpt("b.py", (Line(1, "a" * 5_000 + "HERE" + "b" * 5_000, (5_000, 5_004)),))[0].html
    assert "<mark>HERE</mark>" in html
    assert html.startswith("…a")
    assert html.endswith("b…")
    assert len(plain(html)) == WIDEST + 2


def test_unknown_file_and_line_have_no_colours():
    assert coloured("x = 1").numbered("b.py", 1, 3) == ()
    assert coloured("x = 1").excerpt("b.py", (Line(7, "x = 1 <"),))[0].html == "x = 1 &lt;"


@pytest.mark.parametrize("text", ['"""', "'''", '"""a\\', '"', "\\", "@", "rb'", '"""' + "\\" * 9_999, "(" * 9_999])
def test_odd_and_unfinished_source_is_read_in_linear_time(text):
    page = coloured((text + "a" * 50 + "\n") * 400 + text)
    read = in_child(lambda: len(page.numbered("a.py", 1, 3)), seconds=60)  # it takes 0.1 s, a quadratic reading minutes
    assert read.value == 3, read.why
