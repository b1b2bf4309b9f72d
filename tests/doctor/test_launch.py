"""What Python would not read is not run, and what it reads is."""

import gc
import importlib
import sys
import weakref

import pytest

from gradwright.doctor.launch import check_encoding, on_import_of

READ = [
    b"",
    b"x = 1\n",
    "# caf\u00e9\n".encode(),
    b"\xef\xbb\xbfx = 1\n",
    b"# coding: latin-1\n# \xe9\n",
    b"\r\n\r# x\r",
]


@pytest.mark.parametrize("data", READ)
def test_a_file_in_its_own_encoding_is_read(tmp_path, data):
    (tmp_path / "train.py").write_bytes(data)
    check_encoding(str(tmp_path / "train.py"))


def test_a_comment_in_no_known_encoding_is_what_python_dies_of(tmp_path):
    (tmp_path / "train.py").write_bytes(b"import torch\n\n\n# caf\xe9\n")
    with pytest.raises(SyntaxError, match=r"starting with .*xe9.* on line 4, but no encoding declared"):
        check_encoding(str(tmp_path / "train.py"))


def test_all_who_wait_for_a_module_are_called_once_and_not_kept_by_its_loader(tmp_path, monkeypatch):
    class Waiting:
        called = 0

        def call(self):
            self.called += 1

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "waited_for.py").write_text("here = True\n")
    one, other, gone = Waiting(), Waiting(), Waiting()
    stops = [on_import_of("waited_for", each.call) for each in (one, other, gone)]
    stops[2]()
    try:
        assert importlib.import_module("waited_for").here
        assert (one.called, other.called, gone.called) == (1, 1, 0)
        on_import_of("waited_for", one.call)  # it is loaded: at once
        assert one.called == 2
        kept = weakref.ref(one)
        del one, stops
        gc.collect()
        assert kept() is None
    finally:
        sys.modules.pop("waited_for", None)
