"""Which rules a test session asks, and the signs of life while Functions are tried."""

import pytest

from gradwright.doctor.options import Options
from gradwright.testing.diagnosed.examined import at_sizes_of_tests
from gradwright.testing.diagnosed.progress import TellingJournal, progress_of


@pytest.mark.parametrize("select", [(), ("GW1",), ("GW301",)])
def test_what_needs_real_sizes_is_not_asked(select):
    assert at_sizes_of_tests(Options(select=select, ignore=("GW4",))).ignore == ("GW4", "GW303")


@pytest.mark.parametrize("select", [("GW303",), ("GW1", "GW3"), ("GW",)])
def test_unless_it_is_selected(select):
    assert at_sizes_of_tests(Options(select=select)).ignore == ()


class Terminal:
    def __init__(self, isatty):
        self.isatty, self.said = isatty, []
        self._tw = type("Writer", (), {"fullwidth": 40, "width_of_current_line": 0})

    def ensure_newline(self):
        self.said.append("newline")

    def rewrite(self, text, erase):
        self.said.append(text)

    def write_line(self, text):
        self.said.append(text)


def told(terminal, path):
    with TellingJournal(path / "journal", progress_of(terminal)) as journal:
        journal.progress("trying", "MySquare", 2, 7)
        journal.progress("judging")
        journal.progress("proving", "a fix of " + 80 * "x")


def test_a_terminal_s_line_is_rewritten_within_its_width(tmp_path):
    terminal = Terminal(isatty=True)
    told(terminal, tmp_path)
    first, second, third, last = terminal.said
    assert (first, second, third) == ("newline", "gradwright: trying MySquare (3 of 7)", "gradwright: judging")
    assert last.startswith("gradwright: proving a fix of x") and len(last) == 39


def test_a_log_gets_one_line(tmp_path):
    terminal = Terminal(isatty=False)
    told(terminal, tmp_path)
    assert terminal.said == ["newline", "gradwright: trying the Functions that the tests called"]


def test_a_worker_without_a_terminal_says_nothing(tmp_path):
    told(None, tmp_path)
    assert (tmp_path / "journal").stat().st_size == 0
