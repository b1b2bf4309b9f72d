"""The table: 100 columns, aligned, truncated in the middle, escaped in HTML, readable where there is no UTF-8."""

import io
import math
import sys
from html.parser import HTMLParser

import pytest
import torch

from gradwright.functions.tap import Octave, Statistics, tap, taps
from gradwright.functions.tap.layout import CELLS, Axis, Column, Line, Table, as_text, for_stdout
from gradwright.functions.tap.numbers import number


def statistics(**octaves):
    entries = sum(octaves.values())
    held = tuple(Octave(int(name[1:].replace("m", "-")), 0, count) for name, count in octaves.items())
    return Statistics(elements=entries, norm=1.0, minimum=0.0, maximum=1.0, mean=0.5, zeros=0, nans=0, infs=0, tiny=0,
                      octaves=held)  # fmt: skip


class Cells(HTMLParser):
    """The texts of an HTML table's cells; every tag has to be closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells, self.tags = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_the_table_reads_as_a_table():
    x = torch.tensor([[1.0, -2.0, 0.0, 4.0]], requires_grad=True)
    with taps() as seen:
        for _ in range(2):
            h = tap("hidden", x * 1)
            (h * torch.tensor([0.5, 0.5, 0.5, math.inf])).sum().backward()
    assert str(seen).splitlines() == [
        "1 tap, 4 passages",
        "",
        "tap               seen  tensor     norm  min  mean  max  zero  NaN  inf  5e-4   |x|   8",
        "hidden  forward      2  f32[1,4]   4.58   -2  0.75    4   25%    0    0             ███",
        "        backward     2  f32[1,4]  0.866  0.5   0.5  0.5     0    0  25%            █",
        "",
        "norm: mean over the passages; the other figures: over all entries that passed",
        "norm, min, mean and max are those of the finite entries",
    ]


def test_nothing_is_told_of_nothing():
    with taps() as seen:
        pass
    assert str(seen) == "no tensor passed a tap\n"
    assert "no tensor passed a tap" in seen._repr_html_()


@pytest.mark.parametrize("width", [100, 120, 140])
def test_no_line_is_wider_than_asked_where_names_are_long(width):
    with taps() as seen:
        tap("encoder.layers.17.self_attention.out_projection.weight" * 3, torch.randn(12, 34, 56) * -1e-20)
        tap("名前" * 40, torch.randn(4, 4, 4, 4, 4, 4))
    from rich.cells import cell_len

    lines = seen.table(width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert any("…" in line for line in lines)


def test_figures_are_never_cut_whatever_the_width():
    with taps() as seen:
        tap("name" * 10, torch.full((3,), -1.234e-20))
    assert seen.table(width=40).splitlines()[3].split()[4:8] == ["2.1e-20", "-1.2e-20", "-1.2e-20", "-1.2e-20"]


def test_columns_are_aligned():
    with taps() as seen:
        for name, scale in (("a", 1.0), ("a longer name", 1e-9), ("b", 12345.0)):
            tap(name, torch.tensor([1.0, -3.0]) * scale)
    head, *rows = seen.table().splitlines()[2:5]
    for word in ("norm", "min", "mean", "max", "zero", "NaN", "inf"):
        end = head.index(word) + len(word)
        assert all(row[end - 1] != " " and row[end : end + 1] == " " for row in rows), word


def test_html_is_whole_and_escaped():
    with taps() as seen:
        tap("<script>alert(1)</script>", torch.tensor([1.0, math.nan]))
        tap("<img>", None)
    html = seen._repr_html_()
    cells = Cells(html)
    assert "<script>alert(1)</script>" in cells.cells
    assert "script" not in cells.tags and "img" not in cells.tags
    assert 'class="bad"' in html  # the NaN


def test_control_characters_do_not_reach_the_terminal():
    with taps() as seen:
        tap("evil\x1b[2J\nname", torch.ones(1))
    assert "\x1b" not in str(seen) and "evil\\x1b[2J\\nname" in seen.table(width=200)


def test_where_the_output_is_no_utf8_the_table_is_still_printed(monkeypatch):
    with taps() as seen:
        tap("x", torch.randn(100))
        tap("x", torch.randn(101))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    print(seen)
    stream.flush()
    printed = stream.buffer.getvalue().decode("ascii")
    assert "f32[.]" in printed and "@" in printed


def test_text_that_can_be_shown_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert for_stdout("▁█…") == "▁█…"


def test_bars_show_where_the_magnitudes_lie():
    figures = statistics(o0=8, o1=4, om3=1)
    axis = Axis.of([figures])
    assert axis == Axis(low=2 - CELLS, step=1)
    assert axis.bars(figures) == " " * (CELLS - 5) + "▂" + "  " + "█▅"
    assert axis.bars(None) == " " * CELLS


def test_a_single_entry_is_visible_beside_many():
    axis = Axis(low=-CELLS, step=1)
    assert axis.bars(statistics(om1=1, om2=10**9))[-2:] == "█▁"


def test_zeros_have_no_bar_and_tiny_ones_the_first():
    with taps() as seen:
        tap("x", torch.tensor([0.0, 1e-42, 1.0]))
    figures = seen.rows[0].combined
    assert Axis.of([figures]).bars(figures) == "█" + " " * (CELLS - 2) + "█"


def test_one_outlier_does_not_spoil_the_axis():
    usual = [statistics(om2=1000, om3=1000) for _ in range(60)]
    axis = Axis.of([*usual, statistics(o120=1)])
    assert axis.step == 1
    assert axis.bars(statistics(o120=1))[-1] == "█"  # at the end that it lies beyond


def test_the_axis_names_its_ends():
    head = Axis(low=-10, step=1).head
    assert (len(head) == CELLS and head.split() == ["0.001", "|x|", "20"]) or head.split()[1] == "|x|"
    assert Axis(low=900, step=16).head.split()[-1] == "9e307"


def test_a_histogram_planted_in_the_wrong_place_would_be_seen():
    right, shifted = statistics(o0=8, o1=4), statistics(o1=8, o2=4)
    axis = Axis.of([right])
    assert axis.bars(right) != axis.bars(shifted)


def test_numbers_are_short_and_near():
    for exponent in range(-300, 300, 7):
        for mantissa in (1.0, -9.996, -1.2345, 5.5):
            told = number(mantissa * 10.0**exponent)
            assert len(told) <= 8 + (exponent < -90) and float(told) == pytest.approx(
                mantissa * 10.0**exponent, rel=0.05
            )


def test_a_name_too_long_loses_its_middle():
    table = Table(
        "t",
        (Column("name", "left", least=6), Column("figure")),
        (
            Line(
                ("abcdefghijkl", "123456789"),
            ),
        ),
    )
    assert as_text(table, 18).splitlines()[2:] == ["name        figure", "abc…ijkl 123456789"]
