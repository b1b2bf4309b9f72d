"""Published packages at pinned versions, unpacked outside the repository; nothing of them is installed or built.

`pip download` would run a source distribution's setup.py to learn its name, and most of the old ones need a torch of
their time for that; so files come straight from the index, and their SHA-256 must be the pinned one.

    python benchmarks/wild/fetching.py entmax==1.3 ...    prints the lines for a file of pins
"""

from __future__ import annotations

import hashlib
import html
import io
import os
import re
import shutil
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("GRADWRIGHT_WILD", Path.home() / ".cache" / "gradwright" / "wild"))
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
LARGEST_BYTES = 4_000_000  # of one file inside that is no library: data sets and test images stay packed


@dataclass(frozen=True)
class Pin:
    """One file of a package, as the index names it."""

    name: str
    version: str
    file: str
    sha256: str

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"

    def __str__(self) -> str:
        return f"{self.name}=={self.version}  # {self.file} sha256:{self.sha256}"


def pins(path: Path) -> dict[str, Pin]:
    """The pins of a file, by package name; several versions of one package are kept as ``name==version``."""
    found: dict[str, Pin] = {}
    for line in path.read_text().splitlines():
        if match := re.match(r"([\w.-]+)==(\S+)\s+# (\S+) sha256:(\w+)", line):
            pin = Pin(*match.groups())
            found[f"{pin.name}=={pin.version}"] = found[pin.name] = pin
    return found


def fetched(pin: Pin) -> Path:
    """The folder that belongs on ``sys.path`` for this package; downloaded and unpacked once."""
    if not pin.folder.is_dir():
        content = read(links(pin.name)[pin.file])
        digest = hashlib.sha256(content).hexdigest()
        if digest != pin.sha256:
            raise ValueError(f"{pin.file} has SHA-256 {digest}, pinned is {pin.sha256}")
        partial = pin.folder.with_name(pin.folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for name, data in members(pin.file, content):
            target = (partial / name).resolve()
            if target.is_relative_to(partial.resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        partial.rename(pin.folder)
    source = pin.folder / "src"
    return source if source.is_dir() and not (source / "__init__.py").exists() else pin.folder


def members(file: str, content: bytes) -> Iterable[tuple[str, bytes]]:
    if file.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            for item in wheel.infolist():
                if not item.is_dir() and (item.file_size < LARGEST_BYTES or ".so" in item.filename):
                    name = item.filename if file.endswith(".whl") else item.filename.split("/", 1)[-1]
                    yield name, wheel.read(item)
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as sdist:
        for member in sdist:
            if member.isfile() and member.size < LARGEST_BYTES and (data := sdist.extractfile(member)) is not None:
                yield member.name.split("/", 1)[-1], data.read()


def links(name: str) -> dict[str, str]:
    page = read(f"{INDEX}/{name}/").decode()
    return {
        text: html.unescape(address).split("#")[0]
        for address, text in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', page)
    }


def read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=120) as answer:  # an https index
        return bytes(answer.read())


def pin_of(name: str, version: str, *, hashed: bool = True) -> Pin:
    """The file of this version that needs no building: a wheel for any machine, else one for this, else the source."""

    def rank(file: str) -> int:
        if file.endswith("none-any.whl"):
            return 0
        if file.endswith(".whl"):
            return 1 if "cp311" in file and "manylinux" in file and "x86_64" in file else 3
        return 2

    stem = re.sub(r"[-_.]+", "[-_.]", name)
    wanted = re.compile(rf"{stem}-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)$", re.IGNORECASE)
    found = links(name)
    file = min((file for file in found if wanted.match(file)), key=rank)
    return Pin(name, version, file, hashlib.sha256(read(found[file])).hexdigest() if hashed else "")


if __name__ == "__main__":
    for wish in sys.argv[1:]:
        print(pin_of(*wish.split("==")), flush=True)
