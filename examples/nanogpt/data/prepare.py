"""Writes austen.txt anew from Debian's package r-cran-janeaustenr, byte for byte: see README.md.

python examples/nanogpt/data/prepare.py r-cran-janeaustenr_1.0.0-1_all.deb
"""

import hashlib
import io
import re
import sys
import tarfile
import zlib
from pathlib import Path

PACKAGE_SHA256 = "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95"
TEXT = Path(__file__).with_name("austen.txt")
BEGINS = "PRIDE AND PREJUDICE"


def main(package: Path) -> None:
    archive = package.read_bytes()
    found = hashlib.sha256(archive).hexdigest()
    if found != PACKAGE_SHA256:
        raise SystemExit(f"{package} is another package: its sha256 is {found}, not {PACKAGE_SHA256}")
    (lines,) = [lines for lines in novels(archive) if lines[0] == BEGINS]
    text = plain("\n".join(lines))
    TEXT.write_bytes(text.encode("ascii"))
    print(f"{TEXT.name}: {len(text):,} characters, {len(set(text))} different ones")


def novels(archive: bytes) -> list[list[str]]:
    """The lines of each. R keeps its objects one after the other: four bytes of length, and a zlib stream."""
    packed = member(archive, "data.tar")
    mode = "r:xz" if packed[:6] == b"\xfd7zXZ\x00" else "r:*"
    with tarfile.open(fileobj=io.BytesIO(packed), mode=mode) as files:
        kept = files.extractfile("./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
        assert kept is not None
        rest = kept.read()
    found = []
    while rest:
        stream = zlib.decompressobj()
        found.append(strings(stream.decompress(rest[4:])))
        rest = stream.unused_data
    return [lines for lines in found if lines]


def member(archive: bytes, name: str) -> bytes:
    """Of an `ar` archive: headers of 60 bytes, contents padded to an even length."""
    at = len(b"!<arch>\n")
    while at < len(archive):
        header = archive[at : at + 60]
        size = int(header[48:58])
        if header[:16].decode().startswith(name):
            return archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise SystemExit(f"the package holds no {name}")


def strings(serialised: bytes) -> list[str]:
    """A character vector as R serialises it: a flag word and a length, and so for each string. Other objects: none."""
    at = len(b"X\n") + 3 * 4  # the format, its version, and those of R that wrote it and that can read it
    if serialised[:6] == b"X\n\0\0\0\3":
        at += 4 + int.from_bytes(serialised[at : at + 4], "big")  # the name of the encoding

    def number() -> int:
        nonlocal at
        at += 4
        return int.from_bytes(serialised[at - 4 : at], "big", signed=True)

    if number() & 255 != 16:  # a vector of strings
        return []
    found = []
    for _ in range(number()):
        assert number() & 255 == 9  # a string
        size = number()
        found.append(serialised[at : at + size].decode())
        at += size
    return found


def plain(text: str) -> str:
    """One kind of quotation mark and dash, no underscores for italics, no more than one empty line at a time."""
    for old, new in {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2014": "--"}.items():
        text = text.replace(old, new)
    text = text.replace("_", "").strip("\n") + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
