"""Which fixes are made, which are left out, and why."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from gradwright.doctor.mending.choosing import selected
from gradwright.doctor.mending.combining import Plan, plan
from gradwright.doctor.session.model import Fix, Proof
from gradwright.doctor.session.place import Location

TEXT = """\
import torch


def one(x):
    y = x + 0
    return y


def two(x):
    z = x * 1
    return z
"""


def planned(session, **options) -> Plan:
    options = {"unsafe": False, "outside": False, **options}
    return plan(session.findings, session.report, here=session.folder, **options)


def left(made: Plan) -> list[str]:
    return [offer.left for offer in made.offers]


def test_fixes_of_different_functions_become_one_text(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    z = x * 1\n", "    z = x\n")
    made = planned(session)
    assert left(made) == ["", ""]
    (file,) = made.files
    assert file.new == TEXT.replace("x + 0", "x").replace("x * 1", "x").encode()
    assert file.old == TEXT.encode()
    assert file.untried == ()


def test_fixes_of_several_files_are_several_files(session):
    session.file("train.py", TEXT)
    session.file("deep/model.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    z = x * 1\n", "    z = x\n", name="deep/model.py")
    assert [file.path for file in planned(session).files] == ["train.py", "deep/model.py"]


def test_of_two_fixes_for_one_line_the_one_that_saves_more_is_made_and_the_other_told(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x.clone()\n", saves=1.0)
    session.fix("    y = x + 0\n", "    y = x\n", code="GW306", saves=2.0)
    made = planned(session)
    assert made.files[0].new == TEXT.replace("x + 0", "x").encode()
    assert left(made)[1] == ""
    assert "overlaps with GW306 train.py:5" in left(made)[0]
    assert "run gradwright fix again" in left(made)[0]


def test_an_error_comes_before_speed(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", saves=9.0)
    session.fix("    y = x + 0\n", "    y = x + 1\n", code="GW101", severity="error", saves=0.0)
    assert planned(session).files[0].new == TEXT.replace("x + 0", "x + 1").encode()


def test_a_fix_that_two_findings_share_is_made_once(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x\n", code="GW306")
    made = planned(session)
    assert left(made) == ["", ""]
    assert made.files[0].new == TEXT.replace("x + 0", "x").encode()


def test_an_import_that_two_fixes_bring_is_brought_once(session):
    session.file("train.py", TEXT)
    numba = ("import torch\n", "import torch\nimport numba\n")
    more = ("import torch\n", "import torch\nimport numba\nimport math\n")
    session.fix("    y = x + 0\n", "    y = numba.njit(x)\n", numba)
    session.fix("    z = x * 1\n", "    z = math.exp(x)\n", more)
    made = planned(session)
    assert left(made) == ["", ""]
    text = made.files[0].new.decode()
    assert text.count("import numba\n") == text.count("import math\n") == 1


def test_fixes_that_meet_in_one_function_are_said_to_be_untried_together(session):
    session.file("train.py", TEXT.replace("    return y\n", "    w = x - 0\n    pad = w\n    return y + pad\n"))
    session.fix("    y = x + 0\n", "    y = x\n", subject="one")
    session.fix("    pad = w\n", "    pad = w * 1\n", subject="one")
    made = planned(session)
    assert left(made) == ["", ""]
    assert made.files[0].untried == ("one",)


def test_an_unsafe_fix_is_left_out_unless_asked_for(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", unsafe="differs at -0.0")
    made = planned(session)
    assert "--unsafe" in left(made)[0] and made.files == ()
    assert made.offers[0].diff
    assert left(planned(session, unsafe=True)) == [""]


def test_a_file_outside_is_left_out_unless_asked_for(session):
    session.file("train.py", TEXT)
    path = session.folder.parent / "elsewhere.py"
    path.write_text(TEXT)
    session.knows("../elsewhere.py")
    session.fix("    y = x + 0\n", "    y = x\n", name="../elsewhere.py")
    made = planned(session)
    assert str(path) in left(made)[0] and "--outside" in left(made)[0] and made.files == ()
    (file,) = planned(session, outside=True).files
    assert file.real == path and file.path == str(path)


def test_an_installed_package_is_never_changed(session):
    site = session.folder / "venv/lib/site-packages/lib.py"
    site.parent.mkdir(parents=True)
    session.file("venv/lib/site-packages/lib.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", name="venv/lib/site-packages/lib.py")
    assert "installed package" in left(planned(session, outside=True))[0]
    # The standard library and Gradwright itself are none of the user's either.
    for path in (Path(sysconfig.get_paths()["stdlib"]) / "ast.py", Path(__import__("gradwright").__file__)):
        fix = Fix(f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n", Proof("verified", (), 0.0, 0.0, 0))
        session.findings = [session.found(Location(str(path), 1), "GW301", "warning", "f", fix)]
        assert "installed package" in left(planned(session, outside=True))[0]


@pytest.mark.parametrize("name", ["<string>", "<unknown>", "<ipython-input-3>"])
def test_code_that_was_made_by_exec_has_no_file_to_change(session, name: str):
    fix = Fix(f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-a\n+b\n", Proof("verified", (), 0.0, 0.0, 0))
    session.found(Location(name, 1), "GW301", "warning", "f", fix)
    assert "exec" in left(planned(session))[0]


def test_a_file_that_changed_is_left_as_it_is_and_the_others_go_on(session):
    session.file("train.py", TEXT)
    session.file("model.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    session.fix("    y = x + 0\n", "    y = x\n", name="model.py")
    (session.folder / "train.py").write_text(TEXT + "# later\n")
    made = planned(session)
    assert "changed since" in left(made)[0]
    assert [file.path for file in made.files] == ["model.py"]


def test_a_file_that_is_gone_or_that_the_session_does_not_hold_is_told(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    kept = session.sources.pop("train.py")
    assert "changed since" in left(planned(session))[0]
    session.sources["train.py"] = kept
    (session.folder / "train.py").unlink()
    assert "can't be read: No such file" in left(planned(session))[0]


def test_a_diff_that_does_not_fit_is_no_fix(session):
    session.file("train.py", TEXT)
    fix = Fix("--- train.py\n+++ train.py\n@@ -1 +1 @@\n-import os\n+import re\n", Proof("verified", (), 0.0, 0.0, 0))
    session.found(Location("train.py", 1), "GW301", "warning", "f", fix)
    assert "does not fit train.py: line 1" in left(planned(session))[0]


def test_a_fix_that_leaves_no_python_is_not_made(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = (x\n")
    assert "no Python" in left(planned(session))[0]


def test_a_script_behind_a_link_is_changed_where_it_really_lies(session):
    session.file("real/train.py", TEXT)
    (session.folder / "train.py").symlink_to("real/train.py")
    session.fix("    y = x + 0\n", "    y = x\n", name="real/train.py")
    (file,) = planned(session).files
    assert file.real == session.folder / "real/train.py"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (b"def f(x):\r\n\ty = x + 0\r\n\treturn y\r\n", "\ty = x + 0\n", "\ty = x\n"),
        (b"\xef\xbb\xbfdef f(x):\n    y = x + 0\n    return y", "    y = x + 0\n", "    y = x\n"),
        ("# coding: latin-1\nn = 'é'\ndef f(x):\n    y = x + 0\n    return y\n".encode("latin-1"),
         "    y = x + 0\n", "    y = x  # é\n"),
        (b"def make(k):\n    def f(x):\n        y = x + 0\n        return y * k\n    return f\n",
         "        y = x + 0\n", "        y = x\n"),
        (b"f = lambda x: (\n    x + 0\n)\n", "    x + 0\n", "    x\n"),
        (b"@wraps(\n    lambda x: x + 0\n)\ndef f(x):\n    return x\n", "    lambda x: x + 0\n", "    lambda x: x\n"),
    ],
    ids=["CRLF and tabs", "byte order mark, no last newline", "latin-1", "closure", "lambda", "decorator"],
)  # fmt: skip
def test_any_text_keeps_all_that_is_not_the_fix(session, text: bytes, old: str, new: str):
    path = session.file("train.py", text)
    session.fix(old, new)
    made = planned(session)
    assert left(made) == [""]
    kind = "latin-1" if b"latin-1" in text else "utf-8"
    end = "\r\n" if b"\r\n" in text else "\n"
    wanted = text.decode(kind).replace(old.replace("\n", end), new.replace("\n", end)).encode(kind)
    assert made.files[0].new == wanted != path.read_bytes()


def test_an_encoding_that_lacks_a_letter_of_the_fix_leaves_the_file_alone(session):
    session.file("train.py", b"# coding: latin-1\ny = 1\n")
    session.fix("y = 1\n", "y = 2  # \u2192\n")
    made = planned(session)
    assert "UTF-8" in left(made)[0] and made.files == ()


def test_codes_are_selected_and_ignored_by_their_beginnings(session):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n", code="GW301")
    session.fix("    z = x * 1\n", "    z = x\n", code="GW402")
    for select, ignore, codes in (
        ((), (), ["GW301", "GW402"]),
        (("GW3",), (), ["GW301"]),
        ((), ("GW3",), ["GW402"]),
        (("GW",), ("GW402",), ["GW301"]),
    ):
        assert [found.code for found in selected(session.report, select, ignore)] == codes


def test_the_place_of_a_session_made_elsewhere_is_its_own_directory(session, tmp_path: Path):
    session.file("train.py", TEXT)
    session.fix("    y = x + 0\n", "    y = x\n")
    made = plan(session.findings, session.report, here=tmp_path, unsafe=False, outside=False)
    assert [file.path for file in made.files] == ["work/train.py"]
