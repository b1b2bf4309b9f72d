"""A kept session is used only for the script, the arguments and the files that it tells of."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import gradwright
from gradwright.doctor.conduct import save
from gradwright.doctor.mending.sessions import last_session, named_session
from gradwright.doctor.session.model import MISSING, Environment, NotExamined
from gradwright.errors import UsageError

TEXT = "import torch\ny = 1\n"


@pytest.fixture
def kept(session) -> Path:
    session.file("train.py", TEXT)
    session.file("model.py", TEXT)
    session.fix("y = 1\n", "y = 2\n")
    session.fix("y = 1\n", "y = 2\n", name="model.py")
    return session.keep()


def test_the_session_of_the_same_script_and_files_is_used(session, kept: Path):
    assert last_session(kept, ("train.py",), session.folder) == session.report
    assert last_session(kept, (str(session.folder / "train.py"),), session.folder.parent) == session.report
    assert named_session(kept, ("train.py",), session.folder) == session.report


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("train.py", "--epochs", "2"), "of train.py"),
        (("model.py",), "of train.py"),
        (("elsewhere/train.py",), "of train.py"),
    ],
    ids=["arguments", "script", "folder"],
)
def test_the_session_of_another_script_or_other_arguments_is_not(session, kept: Path, argv, word):
    assert word in last_session(kept, argv, session.folder)
    with pytest.raises(UsageError, match=re.escape(word)):
        named_session(kept, argv, session.folder)


def test_a_session_is_not_used_once_a_file_of_the_users_changed(session, kept: Path):
    (session.folder / "model.py").write_text(TEXT + "# later\n")
    assert last_session(kept, ("train.py",), session.folder) == "model.py was changed since the last session"
    # One that was named is used for the files that did not change.
    assert named_session(kept, ("train.py",), session.folder) == session.report
    (session.folder / "train.py").unlink()
    with pytest.raises(UsageError, match=r"older than.*gradwright diagnose --session"):
        named_session(kept, ("train.py",), session.folder)


def test_a_change_in_an_installed_file_is_no_reason_to_run_again(session, kept: Path):
    session.file("venv/lib/site-packages/lib.py", TEXT)
    session.keep()
    (session.folder / "venv/lib/site-packages/lib.py").write_text("x = 1\n")
    assert last_session(kept, ("train.py",), session.folder) == session.report


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "cut off"),
        (lambda text: "", "cut off"),
        (lambda text: json.dumps({**json.loads(text), "schema_version": 99}), "schema version 99"),
        (lambda text: "[1, 2]", "no session"),
        (lambda text: json.dumps({**json.loads(text), "findings": 3}), "expected a list"),
    ],
    ids=["cut off", "empty", "other schema", "no session", "wrong type"],
)
def test_a_session_that_cannot_be_read_is_made_anew_or_refused_if_it_was_named(session, kept: Path, spoil, word):
    kept.write_text(spoil(kept.read_text()))
    assert word in last_session(kept, ("train.py",), session.folder)
    with pytest.raises(UsageError, match=re.escape(word)):
        named_session(kept, ("train.py",), session.folder)


def test_a_session_that_is_not_there_is_told(session):
    nowhere = session.folder / "none.json"
    assert last_session(nowhere, ("train.py",), session.folder) == "there is no session yet"
    with pytest.raises(UsageError, match="there is no session"):
        named_session(nowhere, ("train.py",), session.folder)


def test_a_session_of_no_script_or_of_another_version_or_cut_short_is_not_used(session, kept: Path):
    report = session.report
    for spoilt, word in (
        (dataclasses.replace(report, script=dataclasses.replace(report.script, argv=())), "of no script"),
        (dataclasses.replace(report, not_examined=(NotExamined(MISSING, "interrupted"),)), "cut short"),
        (
            dataclasses.replace(report, environment=Environment(gradwright="0.0.1", cwd=str(session.folder))),
            "Gradwright 0.0.1",
        ),
    ):
        save(spoilt, kept)
        assert word in last_session(kept, ("train.py",), session.folder)
    own = dataclasses.replace(
        report, environment=Environment(gradwright=gradwright.__version__, cwd=str(session.folder))
    )
    save(own, kept)
    assert last_session(kept, ("train.py",), session.folder) == own
