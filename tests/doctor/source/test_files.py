"""Reading files as Python reads them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradwright.doctor.source.files import Columns, parse, read


def test_line_ends_and_byte_order_mark_are_taken_off(tmp_path: Path):
    path = tmp_path / "windows.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n")
    file = read(path)
    assert file.text == "x = 1\ny = 2\n"
    assert file.path == str(path)


def test_the_declared_encoding_is_honoured(tmp_path: Path):
    path = tmp_path / "old.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nname = 'Größe'\n".encode("latin-1"))
    assert "Größe" in read(path).text


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "train.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    assert read("train.py").path == str(tmp_path / "train.py")


def test_an_empty_file_is_a_file():
    file = parse(b"", "empty.py")
    assert file.text == "" and file.tree.body == []


@pytest.mark.parametrize(
    "data",
    [
        b"def f(:\n    pass\n",
        b"x = 'caf\xe9'\n",
        b"# coding: no-such-codec\nx = 1\n",
        b"if True:\n\tx = 1\n        y = 2\n",
        b"x = 1\n\x00\n",
    ],
    ids=["grammar", "bytes that are no utf-8", "unknown codec", "tabs and spaces mixed", "null byte"],
)
def test_faulty_text_raises_the_syntax_error_of_python(data: bytes):
    with pytest.raises(SyntaxError) as ours:
        parse(data, "faulty.py")
    with pytest.raises((SyntaxError, ValueError)) as pythons:
        compile(data, "faulty.py", "exec")
    if isinstance(pythons.value, SyntaxError):
        assert (ours.value.msg, ours.value.lineno) == (pythons.value.msg, pythons.value.lineno)


def test_the_parsers_warnings_are_passed_on_only_if_asked():
    parse(rb"x = '\d'", "escape.py")
    with pytest.warns((DeprecationWarning, SyntaxWarning), match="invalid escape"):
        parse(rb"x = '\d'", "escape.py", warn=True)


def test_columns_count_characters_not_bytes():
    text = "größe = µ[0]  # ü\n"
    value = ast.parse(text).body[0].value  # type: ignore[attr-defined]  # an assignment
    span = Columns(text).span(value)
    assert text[span.column - 1 : span.end_column - 1] == "µ[0]"


def test_lines_do_not_break_at_form_feeds_or_line_separators():
    text = "x = '\u2028'\n\x0cy = µ\n"
    second = ast.parse(text).body[1]
    assert Columns(text).span(second).line == 2
