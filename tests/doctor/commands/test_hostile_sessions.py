"""Whatever a session file holds, every form of the report is made of it, or it is refused with a word."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.doctor.commands.spoiling import Spoiler, documents
from tests.doctor.render.conftest import Maker

from gradwright.doctor.comparing import compare
from gradwright.doctor.comparing.shown import as_json, as_text
from gradwright.doctor.render import FORMATS, render
from gradwright.doctor.session.codec import encode, from_json
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.reading import read_session
from gradwright.errors import SessionError

WORDS = (
    "message",
    "why",
    "what",
    "name",
    "text",
    "hints",
    "argv",
    "reason",
    "input_name",
    "input",
    "type",
    "diff",
    "on",
)
ROUNDS = 60
HEAVY = ("html",)  # of which a render takes tenths of a second


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in documents(Maker().first_sight())]


def read(data: bytes, folder: Path) -> Report | None:
    """The report; ``None`` where it is refused, in one line without control characters."""
    path = folder / "session.json"
    path.write_bytes(data)
    try:
        return read_session(path)
    except SessionError as error:
        message = str(error)
        assert message.isprintable() and len(message) < 500
        return None


def test_a_session_that_an_earlier_gradwright_wrote_is_read_whole(whole: list[bytes], tmp_path: Path) -> None:
    for data in whole:
        report = read(data, tmp_path)
        assert report is not None and report.findings and report.facts
        for form in FORMATS:
            assert render(report, form)


def test_one_that_was_cut_off_is_refused(whole: list[bytes], tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        for data in whole:
            assert read(Spoiler(seed).cut(data.rstrip()), tmp_path) is None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("how", ["flipped", "replaced"])
def test_one_that_was_spoilt_is_shown_or_refused(how: str, form: str, whole: list[bytes], tmp_path: Path) -> None:
    shown = 0
    for seed in range(ROUNDS // 6 if form in HEAVY else ROUNDS):
        for data in whole:
            report = read(getattr(Spoiler(seed), how)(data), tmp_path)
            if report is not None:
                text = render(report, form, width=100)
                assert text.endswith("\n")
                text.encode("utf-8", "replace")
                shown += 1
    assert shown  # else nothing was tried


def test_two_that_were_spoilt_are_compared(whole: list[bytes], tmp_path: Path) -> None:
    compared = 0
    for seed in range(2 * ROUNDS):
        for data in whole:
            before, after = read(data, tmp_path), read(Spoiler(seed).replaced(data), tmp_path)
            if before is not None and after is not None:
                for pair in ((before, after), (after, before)):
                    found = compare(*pair)
                    assert as_text(found, width=100, color=False)
                    json.loads(as_json(found))
                    compared += 1
    assert compared


def test_the_spoiler_spoils(whole: list[bytes]) -> None:
    """Each way changes the data, and what is still JSON reaches every part of a report."""
    data = whole[1]
    for how in ("cut", "flipped", "replaced"):
        assert getattr(Spoiler(1), how)(data) != data
    reached = set()
    for seed in range(400):
        spoilt = json.loads(Spoiler(seed).replaced(data))
        reached |= {part for part, value in json.loads(data).items() if spoilt.get(part) != value}
    assert {"facts", "findings", "sources", "script"} <= reached


def test_no_terminal_obeys_what_a_session_says() -> None:
    """No escape, no control character, no mark that turns text around comes out of any value."""
    document = encode(Maker().first_sight())

    def poisoned(value, key=""):
        if isinstance(value, str) and key in WORDS:
            return "\x1b]0;owned\x07\x9b31m\u202e" + value + "\x1b[2J\r"
        if isinstance(value, dict):
            return {name: poisoned(item, name) for name, item in value.items()}
        return [poisoned(item, key) for item in value] if isinstance(value, list) else value

    report = from_json(json.dumps(poisoned(document)))
    texts = [render(report, "terminal", width=80), as_text(compare(report, Report()), width=80, color=False)]
    texts.append(as_text(compare(Report(), report), width=80, color=False))
    for text in texts:
        assert all(character.isprintable() or character == "\n" for character in text)
        assert "owned" not in re.sub(r"\$'[^']*'", "", text)  # in a command it is spelt out, for it is pasted
