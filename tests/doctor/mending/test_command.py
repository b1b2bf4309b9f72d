"""``gradwright fix`` as it is typed, on sessions made by hand: what it prints, what it changes, how it exits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.render.page.reproduce import reproduce
from gradwright.doctor.render.remedies import how_to_fix
from gradwright.doctor.session.place import Location

TEXT = """\
def one(x):
    y = x + 0
    return y


def two(x):
    z = x * 1
    return z
"""
MENDED = TEXT.replace("x + 0", "x").replace("x * 1", "x")


@pytest.fixture
def two_fixes(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    z = x * 1\n", "    z = x\n")
    session.keep()
    return session


@pytest.fixture
def fix(session, gradwright: Callable) -> Callable:
    return lambda *words, **more: gradwright("fix", *words, cwd=session.folder, **more)


def test_fixes_are_shown_and_nothing_is_changed(two_fixes, fix: Callable, tree: Callable):
    called = fix("train.py")
    assert called.code == 1
    assert called.stdout.count("--- train.py") == 2
    assert "2 fixes for train.py: gradwright fix --apply train.py makes them" in called.stdout
    assert called.stderr == ""
    assert tree(two_fixes.folder) == {"train.py": TEXT.encode()}


def test_applied_they_are_made_and_the_old_text_is_kept(two_fixes, fix: Callable, tree: Callable):
    called = fix("--apply", "train.py")
    assert called.code == 0
    assert "train.py: 2 fixes were made; the old text is in train.py.orig beside it" in called.stdout
    assert tree(two_fixes.folder) == {"train.py": MENDED.encode(), "train.py.orig": TEXT.encode()}


def test_a_bare_diff_goes_to_patch_and_the_words_go_elsewhere(two_fixes, fix: Callable):
    called = fix("--diff", "train.py")
    assert called.code == 1
    assert called.stdout.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "makes them" in called.stderr
    subprocess.run(["patch", "-p0"], cwd=two_fixes.folder, input=called.stdout, text=True, check=True)
    assert (two_fixes.folder / "train.py").read_text() == MENDED


def test_an_option_that_people_write_last_is_taken_as_ours(two_fixes, fix: Callable):
    called = fix("train.py", "--apply")
    assert called.code == 0
    assert "--apply is taken as gradwright's own" in called.stderr
    assert (two_fixes.folder / "train.py").read_text() == MENDED


def test_unless_the_script_has_such_an_option_itself(session, fix: Callable):
    text = TEXT + "# takes --apply\n"
    session.argv = ("train.py", "--apply")
    session.file("train.py", text)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.keep()
    called = fix("train.py", "--apply")
    assert called.code == 2 and "gradwright fix -- train.py --apply" in called.stderr
    called = fix("--", "train.py", "--apply")
    assert called.code == 1 and "y = x\n" in called.stdout
    assert (session.folder / "train.py").read_text() == text


def test_an_unsafe_fix_is_marked_and_needs_its_option(session, fix: Callable):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", unsafe="differs at -0.0")
    session.keep()
    called = fix("--apply", "train.py")
    assert called.code == 1
    assert "unsafe: differs at -0.0" in called.stdout and "1 fix was left out" in called.stdout
    assert (session.folder / "train.py").read_text() == TEXT
    assert fix("--diff", "train.py").stdout == ""
    assert fix("--apply", "--unsafe", "train.py").code == 0
    assert (session.folder / "train.py").read_text() == TEXT.replace("x + 0", "x")


def test_what_overlaps_is_left_for_the_next_time(session, fix: Callable):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x.clone()\n", saves=0.1)
    session.keep()
    called = fix("--apply", "train.py")
    assert called.code == 1
    assert "run gradwright fix again" in " ".join(called.stdout.split())
    assert (session.folder / "train.py").read_text() == TEXT.replace("x + 0", "x")


def test_codes_are_selected(two_fixes, fix: Callable):
    called = fix("--select", "GW1", "train.py")
    assert called.code == 0 and "nothing to fix" in called.stdout


@pytest.mark.parametrize("count", [0, 2])
def test_no_fixes_is_nothing_to_do(session, fix: Callable, count: int):
    session.file("train.py", TEXT)
    for line in range(count):
        session.found(Location("train.py", line + 1, 1), "GW301", "info", "one", None)
    session.keep()
    for words in (("--apply",), ("--diff",)):
        called = fix(*words, "train.py")
        assert called.code == 0
        assert "nothing to fix" in called.stdout + called.stderr
    assert (session.folder / "train.py").read_text() == TEXT


def test_one_file_that_cannot_be_written_does_not_keep_the_others_back(session, fix: Callable):
    session.file("train.py", TEXT)
    session.file("model.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x\n", name="model.py")
    session.keep()
    (session.folder / "model.py").chmod(0o444)
    called = fix("--apply", "train.py")
    assert called.code == 1
    assert "train.py: 1 fix was made" in called.stdout
    assert "not made: model.py is read-only" in called.stdout
    assert (session.folder / "model.py").read_text() == TEXT


def test_a_named_session_that_is_stale_or_of_another_script_is_refused(two_fixes, fix: Callable):
    two_fixes.keep("kept.json")
    assert fix("--session", "kept.json", "train.py").code == 1
    (two_fixes.folder / "other.py").write_text("")
    for words, word in (
        (("--session", "kept.json", "other.py"), "is of train.py, not of other.py"),
        (("--session", "none.json", "train.py"), "there is no session none.json"),
    ):
        called = fix(*words)
        assert called.code == 2 and word in called.stderr
    (two_fixes.folder / "train.py").write_text("# gone\n")
    called = fix("--session", "kept.json", "train.py")
    assert called.code == 2 and "changed since" in called.stderr


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ((), "which script? As in: gradwright fix train.py"),
        (("--apply",), "which script?"),
        (("nowhere.py",), "no script nowhere.py"),
        (("-m", "no.such.module"), "no.such"),
        (("--nonsense", "train.py"), "nonsense"),
    ],
    ids=["nothing", "an option alone", "no such script", "no such module", "no such option"],
)
def test_wrong_usage_gets_a_clear_word(words, word: str, fix: Callable):
    called = fix(*words)
    assert called.code == 2 and word in called.stderr and "Traceback" not in called.stderr


def test_a_script_that_is_not_utf8_gets_its_own_bytes_in_the_diff(session):
    session.file("train.py", "# coding: latin-1\r\nn = 'é'\r\ny = 1 + 0\r\n".encode("latin-1"))
    session.fix("y = 1 + 0\n", "y = 1\n")
    session.keep()
    command = [sys.executable, "-m", "gradwright", "fix", "--diff", "train.py"]
    done = subprocess.run(command, cwd=session.folder, capture_output=True)
    assert b" n = '\xe9'\r\n" in done.stdout and b"-y = 1 + 0\r\n+y = 1\r\n" in done.stdout


def test_a_module_is_found_as_python_finds_it(session, fix: Callable):
    session.file("pack/__init__.py", "")
    session.file("pack/train.py", TEXT)
    session.argv, session.module = (str(session.folder / "pack/train.py"),), "pack.train"
    session.fix("    y = x + 0\n", "    y = x\n", name="pack/train.py")
    session.keep()
    called = fix("-m", "pack.train")
    assert called.code == 1 and "--- pack/train.py" in called.stdout
    assert called.stderr == ""  # the session that is kept is the one of this module: nothing was run


def test_a_module_is_not_the_script_in_its_file(session, fix: Callable):
    """A relative import works in one of them only; what the hints name is what was run."""
    session.file("pack/__init__.py", "")
    session.file("pack/train.py", TEXT)
    session.argv, session.module = (str(session.folder / "pack/train.py"), "--lr", "1"), "pack.train"
    session.fix("    y = x + 0\n", "    y = x\n", name="pack/train.py")
    path = session.keep()
    called = fix("--session", str(path), "pack/train.py", "--lr", "1")
    assert called.code == 2 and "is of -m pack.train --lr 1, not of pack/train.py --lr 1" in called.stderr
    assert how_to_fix(session.report).startswith("gradwright fix -m pack.train --lr 1 shows it")
    assert reproduce(session.report).command == "gradwright diagnose -m pack.train --lr 1"


def test_colour_is_for_terminals_unless_asked_for(two_fixes, fix: Callable):
    assert "\x1b[" not in fix("train.py").stdout
    assert "\x1b[32m+    y = x\x1b[0m" in fix("train.py", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[" not in fix("--diff", "train.py", env={"FORCE_COLOR": "1"}).stdout


def test_no_torch_is_imported_where_a_session_is_at_hand(two_fixes, tmp_path: Path):
    for words in (["fix", "--help"], ["fix", "--apply", "train.py"]):
        probe = (
            f"import sys; from gradwright.doctor.cli import main\ntry: main({words!r})\nexcept SystemExit: pass\n"
            "assert 'torch' not in sys.modules and 'libcst' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, cwd=two_fixes.folder)
    assert (two_fixes.folder / "train.py").read_text() == MENDED
