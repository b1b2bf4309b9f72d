"""A session file is a report or a SessionError, whatever lies under its name."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

import gradwright
from gradwright.doctor.session.codec import encode, to_json
from gradwright.doctor.session.facts import LossValues
from gradwright.doctor.session.model import Environment, Finding, Report, Source, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.reading import MOST_BYTES, read_session
from gradwright.errors import SessionError

AT = Location("train.py", 3, 5, 3, 9)
REPORT = Report(
    environment=Environment(gradwright=gradwright.__version__),
    sources=(Source("train.py", "0" * 64, "import torch\n"),),
    subjects=(Subject("s", "function", "Scale", AT),),
    facts=(LossValues(id="l", subject="s", calls=2, first=1.0, last=0.5, lowest=0.5, history=(1.0, 0.5)),),
    findings=(Finding("GW101", "n", "gradient", "error", "Scale", AT, "m", "w", ("h",), ("l",)),),
)
TEXT = to_json(REPORT)


def changed(*way: str | int, to: Any, written_by: str = gradwright.__version__) -> bytes:
    """The session with one value replaced."""
    data = encode(REPORT)
    data["environment"]["gradwright"] = written_by
    place = data
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = to
    return json.dumps(data).encode()


@pytest.fixture
def refused(tmp_path: Path):
    """Why such a file is no session: the one line that a user gets."""

    def why(data: bytes) -> str:
        path = tmp_path / "session.json"
        path.write_bytes(data)
        with pytest.raises(SessionError) as caught:
            read_session(path)
        message = str(caught.value)
        assert message.startswith(f"the session {path} can't be read: ")  # what, where
        assert message.endswith("; gradwright diagnose writes a new one")  # what to do
        assert len(message.splitlines()) == 1 and len(message) < 400
        return message

    return why


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(TEXT)
    assert read_session(path) == REPORT
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())  # as an editor on Windows leaves it
    assert read_session(path) == REPORT
    (tmp_path / "link.json").symlink_to(path)
    assert read_session(tmp_path / "link.json") == REPORT


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (TEXT[: len(TEXT) // 2].encode(), "it was cut off: its JSON ends in the middle, in line"),
        (TEXT.encode()[:-3], "it was cut off"),
        (b'{"schema_version": 1, "sources": "abc', "it was cut off"),
        (TEXT.encode() + b"{}", "it is no JSON: Extra data"),
        (b"findings: 3", "it is no JSON: Expecting value at line 1, column 1"),
        (gzip.compress(TEXT.encode()), "it is no text in UTF-8, so no session: byte 0x8b at offset 1"),
        (TEXT.replace("Scale", "Sc\xe4le").encode("latin-1"), "byte 0xe4 at offset"),
        (TEXT.encode("utf-16"), "it is UTF-16, as PowerShell's > writes it"),
        (bytes(1000), "it is no JSON"),
        (b"[1, 2]", "it is JSON but no session: a list of 2"),
        (b"null", "it is JSON but no session: null"),
        (b'{"version": "2.1.0", "runs": []}', 'no session: there is no "schema_version" in it'),
        (b'{"schema_version": true}', "its schema version is no integer: true"),
        (b'{"schema_version": 1.0}', "its schema version is no integer: 1.0"),
        (b'{"schema_version": 1, "schema_version": 1}', "'schema_version' stands twice"),
        (changed("schema_version", to=1).replace(b'"why": "w"', b'"why": "w", "why": "v"'), "'why' stands twice"),
        (b'{"schema_version": 1}', "it is no whole session: it lacks the parts environment, script, sources, subjects"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"schema_version": 1, "x": ' + b'{"a":' * 50_000 + b"0" + b"}" * 50_001, "nested deeper"),
        (b'{"schema_version": 1, "script": {"steps": ' + b"9" * 5000 + b"}}", "an integer of thousands of digits"),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_what_is_no_session_is_named(data: bytes, word: str, refused) -> None:
    assert word in refused(data)


@pytest.mark.parametrize(
    ("way", "value", "word"),
    [
        (("findings",), 3, "findings: expected a list, found 3"),
        (("findings", 0), "x", "findings[0]: expected the fields of Finding, found 'x'"),
        (("findings", 0, "location"), None, "findings[0].location: expected the fields of Location, found null"),
        (("findings", 0, "location", "line"), 10**18, "findings[0].location.line: no file has such a place, 1000000"),
        (("findings", 0, "location", "column"), -1, "findings[0].location.column: no file has such a place, -1"),
        (("findings", 0, "location", "line"), 1.5, "expected an integer, found 1.5"),
        (("findings", 0, "severity"), "fatal", "expected one of error, warning, info, found 'fatal'"),
        (("findings", 0, "severity"), ["error"], "found a list of 1"),
        (("findings", 0, "hints"), ["a", {}], "findings[0].hints[1]: expected text, found an object"),
        (("findings", 0), {"code": "GW101"}, "findings[0]: a Finding without category and location and message"),
        (("script", "seconds"), "long", "script.seconds: expected a number, found 'long'"),
        (("script", "seconds"), 10**400, "script.seconds: no such number fits"),
        (("script", "seconds"), True, "expected a number, found true"),
        (("script", "exit_code"), True, "script.exit_code: expected an integer, found true"),
        (("script", "steps"), 2**63, "script.steps: no such integer fits, 9223372036854775808"),
        (("environment", "cwd"), 3, "environment.cwd: expected text, found 3"),
        (("facts", 0, "history", 1), {}, "facts[0](LossValues).history[1]: expected a number, found an object"),
        (("facts", 0, "kind"), ["x"], "facts[0]: expected a fact with its kind"),
        (("findings", 0, "message"), "\x1b[31m" * 5, ""),  # any text is text; renderers clean it
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_named_with_its_place(way, value, word: str, refused, tmp_path: Path) -> None:
    if word:
        assert word in refused(changed(*way, to=value))
    else:
        (tmp_path / "session.json").write_bytes(changed(*way, to=value))
        assert read_session(tmp_path / "session.json").findings[0].message == value


@pytest.mark.parametrize(("version", "word"), [(2, "reads version 1: update it"), (0, "reads version 1; gradwright")])
def test_another_schema_version_says_who_wrote_it(version: int, word: str, refused) -> None:
    said = refused(changed("schema_version", to=version, written_by="9.8.7"))
    assert f"it has schema version {version}, written by Gradwright 9.8.7; this Gradwright" in said
    assert word in said
    hostile = refused(changed("schema_version", to=version, written_by="\x1b[31m" * 50))
    assert "written by" not in hostile and "\x1b" not in hostile


@pytest.mark.parametrize("part", [name for name in json.loads(TEXT) if name != "schema_version"])
def test_a_session_without_a_part_that_every_session_has_is_not_clean(part: str, refused) -> None:
    document = json.loads(TEXT)
    del document[part]
    assert f"it lacks the part {part}, which every session has" in refused(json.dumps(document).encode())


def test_another_schema_version_of_the_same_gradwright_is_not_told_to_update(refused) -> None:
    said = refused(changed("schema_version", to=2, written_by=gradwright.__version__))
    assert f"it has schema version 2, and says that Gradwright {gradwright.__version__} wrote it" in said
    assert "update it" not in said and "another build wrote it, or somebody changed it" in said


def test_a_fact_of_a_later_version_says_which_version_knows_it(refused) -> None:
    said = refused(changed("facts", 0, "kind", to="Clairvoyance", written_by="9.8.7"))
    assert "facts[0]: a kind of fact that is not known here, 'Clairvoyance'" in said
    assert f"(it was written by Gradwright 9.8.7, and this is {gradwright.__version__})" in said
    assert "written by" not in refused(changed("facts", 0, "kind", to="Clairvoyance"))  # by ours: then it is damaged


def test_fields_that_are_not_known_and_references_that_lead_nowhere_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(changed("findings", 0, "colour", to="green"))
    assert read_session(path) == REPORT
    path.write_bytes(changed("findings", 0, "evidence", to=["nothing", "l", "l"]))
    assert read_session(path).findings[0].evidence == ("nothing", "l", "l")
    path.write_bytes(changed("facts", 0, "subject", to="nobody"))
    assert read_session(path).facts[0].subject == "nobody"


def _may_not(path: Path, flags: int) -> int:
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "socket", "nothing", "loop", "not ours"])
def test_only_a_plain_file_is_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, word = tmp_path / "session.json", f"it is no plain file but a {kind}"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)  # to open it would wait for ever
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)  # an address is a short path
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    elif kind == "nothing":
        word = "there is no such file"
    elif kind == "loop":
        path.symlink_to(path)
        word = "symbolic links"
    else:
        path.write_text(TEXT)
        word = "Permission denied"
        monkeypatch.setattr(os, "open", _may_not)  # chmod 000 keeps nobody out who runs the tests as root
    with pytest.raises(SessionError, match=re.escape(str(path))) as caught:
        read_session(path)
    assert word in str(caught.value)


def test_a_pipe_that_takes_the_files_place_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = tmp_path / "session.json", tmp_path / "plain.json"
    plain.write_text(TEXT)
    os.mkfifo(path)
    before = plain.stat()
    monkeypatch.setattr(Path, "stat", lambda self, **more: before)
    with pytest.raises(SessionError, match="no plain file but a pipe"):
        read_session(path)


def test_a_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.json"
    with open(path, "wb") as stream:
        stream.truncate(2 << 30)
    monkeypatch.setattr(os, "open", None)  # nobody gets as far
    with pytest.raises(SessionError, match=r"it has more than 64 MiB \(2,147,483,648 bytes\)"):
        read_session(path)


def test_a_file_that_grows_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, small = tmp_path / "session.json", tmp_path / "small.json"
    small.write_text(TEXT)
    with open(path, "wb") as stream:
        stream.truncate(MOST_BYTES + 10)
    of_small = small.stat()
    monkeypatch.setattr(Path, "stat", lambda self, **more: of_small)
    monkeypatch.setattr(os, "fstat", lambda descriptor: of_small)
    with pytest.raises(SessionError, match="more than 64 MiB"):
        read_session(path)
