"""What is printed of fixes: every word that a person needs, and a diff that patch takes byte for byte."""

from __future__ import annotations

import dataclasses
import re
import subprocess

import pytest
from rich.cells import cell_len

from gradwright.doctor.mending.combining import plan
from gradwright.doctor.mending.shown import bare_diff, outcome, shown, summary
from gradwright.doctor.mending.writing import write
from gradwright.doctor.session.model import Candidate
from gradwright.doctor.session.place import Location

TEXT = """\
def one(x):
    y = x + 0
    return y


def two(x):
    z = x * 1
    return z
"""


def planned(session, **options):
    return plan(session.findings, session.report, here=session.folder, **{"unsafe": False, "outside": False, **options})


def test_each_fix_is_shown_with_its_place_its_proof_and_its_diff(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", unsafe="differs at -0.0", saves=0.25)
    made = planned(session)
    assert shown(made.offers, session.findings, width=100, color=False) == (
        "GW301 warning  train.py:2  Slow is slow\n"
        "  verified on 1 input, worst difference 0: 250 ms -> 0 s\n"
        "  unsafe: differs at -0.0\n"
        "  left out: it is unsafe; --unsafe lets it be made\n"
        "--- train.py\n"
        "+++ train.py\n"
        "@@ -1,5 +1,5 @@\n"
        " def one(x):\n"
        "-    y = x + 0\n"
        "+    y = x\n"
        "     return y\n"
        "\n"
    )


def test_colour_changes_no_word(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    offers = planned(session).offers
    coloured = shown(offers, (), width=100, color=True)
    assert "\x1b[32m+    y = x\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(offers, (), width=100, color=False)


def test_prose_is_wrapped_and_the_diff_is_not_cut(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x  # " + "long " * 40 + "\n", unsafe="differs " * 30)
    lines = shown(planned(session).offers, (), width=60, color=False).splitlines()
    assert max(cell_len(line) for line in lines if not line.startswith("+")) <= 60
    assert any(line.startswith("+") and line.count("long") == 40 for line in lines)


def test_what_could_not_be_rewritten_is_shown_with_its_reason(session):
    session.file("train.py", TEXT)
    found = session.found(Location("train.py", 2, 1), "GW301", "warning", "one", None)
    carried = Candidate("compile_loop", "", "each element needs the one before it")
    failed = Candidate("compile_loop", "--- a\n", "at [0]: 1 instead of 2")
    session.findings[:] = [dataclasses.replace(found, candidates=(carried, failed))]
    text = shown((), session.findings, width=100, color=False)
    assert "can't be rewritten: each element needs the one before it" in text
    assert "compile_loop was tried and is no fix: at [0]: 1 instead of 2" in text


def test_one_change_that_mends_two_findings_is_shown_and_counted_once(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x\n", code="GW306")
    made = planned(session)
    text = shown(made.offers, (), width=100, color=False)
    assert text.count("--- train.py") == 1
    assert "the same change mends it as GW301 train.py:2" in text
    assert summary(made, session.findings, flags="", script="train.py").startswith("1 fix for train.py")


def test_escapes_in_names_and_lines_reach_no_terminal(session):
    session.file("train.py", TEXT.replace("# x", ""))
    session.fix("    y = x + 0\n", "    y = '\x1b[31m\u202e\x07'\n", unsafe="\x1b[2Jgone")
    text = shown(planned(session).offers, (), width=100, color=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.rstrip("\n").encode(),
        b"# coding: latin-1\n# \xe9\n" + TEXT.encode(),
        TEXT.replace("    ", "\t").encode() + b"# \x0c form feed\n",
    ],
    ids=["plain", "CRLF", "byte order mark", "no last newline", "latin-1", "tabs"],
)
@pytest.mark.parametrize("tool", ["patch", "git"])
def test_patch_and_git_make_of_the_bare_diff_what_apply_makes(session, data: bytes, tool: str):
    path = session.file("deep dir/train.py", data)
    pad = "\t" if b"\t" in data else "    "
    session.fix(f"{pad}y = x + 0\n", f"{pad}y = x\n", name="deep dir/train.py")
    session.fix(f"{pad}z = x * 1\n", f"{pad}z = x\n", name="deep dir/train.py")
    made = planned(session)
    command = ["patch", "-p0"] if tool == "patch" else ["git", "apply", "-p0"]
    done = subprocess.run(command, cwd=session.folder, input=bare_diff(made.files), capture_output=True)
    assert done.returncode == 0, done.stderr
    patched = path.read_bytes()
    path.write_bytes(data)
    write(made.files)
    assert path.read_bytes() == patched != data


def test_the_summary_names_the_command_and_what_is_left_out(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x.clone()\n", saves=0.1)
    said = summary(planned(session), session.findings, flags=" --unsafe", script="train.py --name 'a b'")
    assert "1 fix for train.py: gradwright fix --unsafe --apply train.py --name 'a b' makes it" in said
    assert "1 fix is left out" in said


def test_what_was_done_is_told_file_by_file(session):
    session.file("train.py", TEXT)
    twin = session.folder / "twin.py"
    twin.hardlink_to(session.folder / "train.py")
    session.fix("    y = x + 0\n", "    y = x\n", subject="one")
    made = planned(session)
    said = outcome(made, session.findings, *write(made.files), script="train.py")
    assert "train.py: 1 fix was made; the old text is in train.py.orig beside it" in said
    assert "1 other name (hard links), which keep the old text" in said
    said = outcome(made, session.findings, *write(made.files), script="train.py")
    assert said.startswith("not made: train.py was changed meanwhile")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_nothing_to_fix_is_said_as_such(session, count: int):
    session.file("train.py", TEXT)
    for _ in range(count):
        session.found(Location("train.py", 2, 1), "GW301", "warning", "one", None)
    said = summary(planned(session), session.findings, flags="", script="train.py")
    assert said.startswith("nothing to fix: ")
    assert ("nothing was found" in said) == (count == 0)
