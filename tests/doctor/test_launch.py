"""What Python would not read is not run, and what it reads is."""

import pytest

from gradwright.doctor.launch import check_encoding

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
