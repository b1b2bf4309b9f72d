"""The magic's line, and in which cells it is one."""

from __future__ import annotations

import pytest

from gradwright.doctor.notebook.magic import Request, asked, read_line, without_line
from gradwright.errors import UsageError


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("", Request()),
        ("mine", Request("mine")),
        ("--select gw1,GW305 mine", Request("mine", select=("GW1", "GW305"))),
        ("--ignore GW3 --no-fix", Request(ignore=("GW3",), fix=False)),
    ],
)
def test_what_is_asked_for(line: str, request_: Request) -> None:
    assert read_line(line) == request_ == asked(f"%%gradwright {line}\nx = 1")


@pytest.mark.parametrize("line", ["--nonsense", "two names", "1st", "--select", "'open", "--no"])
def test_what_is_not_understood_is_refused_and_the_cell_left_as_it_is(line: str) -> None:
    with pytest.raises(UsageError, match=r"^%%gradwright: .*\n  do   %%gradwright \[NAME\]"):
        read_line(line)
    cell = [f"%%gradwright {line}\n", "x = 1\n"]
    assert without_line(cell) == cell and asked("".join(cell)) is None


@pytest.mark.parametrize(
    "cell", ["x = '%%gradwright'", "x = 1\n%%gradwright\n", "%%gradwrighted\nx", "%gradwright x", ""]
)
def test_cells_that_only_look_like_it_are_left_alone(cell: str) -> None:
    lines = cell.splitlines(keepends=True)
    assert asked(cell) is None and without_line(lines) == lines


def test_lines_keep_their_numbers_unless_another_magic_must_come_first() -> None:
    assert without_line(["%%gradwright a\n", "x = 1\n"]) == ["# %%gradwright a\n", "x = 1\n"]
    assert without_line(["%%gradwright\n", "%%time\n", "x = 1\n"]) == ["%%time\n", "x = 1\n"]
    assert asked("\n  In [3]: %%gradwright\nx") == Request()
