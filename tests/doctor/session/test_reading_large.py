"""A file that means harm by its size takes no more memory than a gibibyte, and gets its word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gradwright.doctor.session.reading import MOST_BYTES, MOST_VALUES

_BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from pathlib import Path
from gradwright.doctor.session.reading import read_session
from gradwright.errors import SessionError
for name in sys.argv[1:]:
    try:
        read_session(Path(name))
        print("read")
    except SessionError as error:
        print(error)
"""
_HEAD = b'{"schema_version": 1, "x": '
_MANY = 60 << 20
LARGE = {
    "open brackets": (b"[" * _MANY, "it has more than 3,000,000 values in it"),
    "empty lists": (_HEAD + b"[" + b"[]," * (_MANY // 3) + b"0]}", "it has more than 3,000,000 values in it"),
    "objects": (_HEAD + b"[" + b'{"":0},' * (_MANY // 7) + b"0]}", "it has more than 3,000,000 values in it"),
    "texts": (b'"",' * (_MANY // 3), "it has more than 3,000,000 values in it"),
    "digits": (_HEAD + b"9" * _MANY + b"}", "an integer of thousands of digits"),
    "a text with no end": (_HEAD + b'"' + rb"\"" * (_MANY // 2), "it was cut off"),
    "one text full of brackets": (_HEAD + b'"' + b"[,{" * (_MANY // 3) + b'"}', "read"),
    "as many values as there may be": (_HEAD + b"[" + b'{"":0},' * (MOST_VALUES // 2 - 9) + b"0]}", "read"),
}


def test_memory_stays_within_a_gibibyte(tmp_path: Path) -> None:
    for number, (data, _) in enumerate(LARGE.values()):
        assert len(data) < MOST_BYTES
        (tmp_path / f"{number}.json").write_bytes(data)
    names = [str(tmp_path / f"{number}.json") for number in range(len(LARGE))]
    done = subprocess.run([sys.executable, "-c", _BOUNDED, *names], capture_output=True, text=True, timeout=120)
    for name in names:
        Path(name).unlink()
    assert done.stderr == ""
    for (_, word), line in zip(LARGE.values(), done.stdout.splitlines(), strict=True):
        assert word in line


def test_too_little_memory_is_a_word_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(_HEAD + b"[" + b'{"":0},' * (MOST_VALUES // 2 - 9) + b"0]}")
    tight = _BOUNDED.replace("(1 << 30, 1 << 30)", "(150 << 20, 150 << 20)")
    done = subprocess.run([sys.executable, "-c", tight, str(path)], capture_output=True, text=True, timeout=60)
    assert "takes more memory than this process may have" in done.stdout
