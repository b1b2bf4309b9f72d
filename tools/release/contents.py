"""What a wheel and an sdist have to hold, and what they must not."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

LARGEST_FILE_BYTES = 2_000_000  # Plotly is 1.5 MB
LARGEST_WHEEL_BYTES = 4_000_000
NOT_FOR_USERS = re.compile(
    r"(^|/)(tests?|benchmarks|corpora|examples|docs|\.venv[^/]*|__pycache__|\.[^/]*)(/|$)|\.pyc$"
)


def version_of(root: Path) -> str:
    text = (root / "src" / "gradwright" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def faults_of_wheel(wheel: Path, root: Path) -> Iterator[str]:
    """In words, each beginning with the wheel's name; nothing if it may be published."""
    for fault in _faults_of_wheel(wheel, root):
        yield f"{wheel.name}: {fault}"


def _faults_of_wheel(wheel: Path, root: Path) -> Iterator[str]:
    version = version_of(root)
    if wheel.name != f"gradwright-{version}-py3-none-any.whl":
        yield f"its name is not that of version {version}"
    if wheel.stat().st_size > LARGEST_WHEEL_BYTES:
        yield f"{wheel.stat().st_size:,} bytes are more than {LARGEST_WHEEL_BYTES:,}"
    with zipfile.ZipFile(wheel) as archive:
        held = {info.filename: archive.read(info) for info in archive.infolist()}
    info = f"gradwright-{version}.dist-info/"
    code = {name for name in held if not name.startswith(info)}
    source = root / "src"
    files = (path for path in (source / "gradwright").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(source).as_posix() for path in files}
    yield from (f"{name} of the source is missing" for name in sorted(wanted - code))
    yield from (f"{name} is not of the source" for name in sorted(code - wanted))
    yield from (
        f"{name} differs from the source"
        for name in sorted(wanted & code)
        if held[name] != (source / name).read_bytes()
    )
    yield from (f"{name} is nothing for users" for name in sorted(code) if NOT_FOR_USERS.search(name))
    yield from (f"{name}: {len(data):,} bytes" for name, data in held.items() if len(data) > LARGEST_FILE_BYTES)
    yield from _faults_of_record(held, info + "RECORD")
    yield from _faults_of_metadata(held, info, version, root)


def _faults_of_record(held: dict[str, bytes], record: str) -> Iterator[str]:
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(held.get(record, b"").decode()))}
    yield from (f"{name} is not in RECORD" for name in sorted(set(held) - set(rows)))
    for name, said in rows.items():
        if name == record:
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(held.get(name, b"")).digest()).rstrip(b"=").decode()
        if said != f"sha256={digest}":
            yield f"{name} is not what RECORD says"


def _faults_of_metadata(held: dict[str, bytes], info: str, version: str, root: Path) -> Iterator[str]:
    said = email.message_from_bytes(held.get(info + "METADATA", b""))
    changelog = re.search(r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if said["Version"] != version:
        yield f"METADATA says version {said['Version']}"
    if changelog is None or changelog[1] != version:
        yield f"the newest version in CHANGELOG.md is {changelog[1] if changelog else 'none'}, not {version}"
    if said["License-Expression"] != "Apache-2.0 AND MIT":
        yield f"its licence is {said['License-Expression']}: Plotly's is MIT"
    yield from (f"{name} is missing" for name in _LICENCES if f"{info}licenses/{name}" not in held)
    needed = {re.split(r"[^\w.-]", need)[0] for need in said.get_all("Requires-Dist", []) if "extra ==" not in need}
    if needed != _NEEDED:
        yield f"it needs {', '.join(sorted(needed))}"
    description = said.get_payload(decode=True)
    assert isinstance(description, bytes)
    if description.decode().strip() != (root / "README.md").read_text().strip():
        yield "its description is not README.md"
    points = held.get(info + "entry_points.txt", b"").decode()
    yield from (f"no entry point {point}" for point in _POINTS if point not in points)


_LICENCES = ("LICENSE", "src/gradwright/doctor/render/page/assets/plotly-LICENSE")
_NEEDED = {"torch", "click", "rich", "libcst", "llvmlite", "numba", "jinja2"}
_POINTS = ("gradwright = gradwright.doctor.cli:main", "gradwright = gradwright.testing.plugin")


def faults_of_sdist(sdist: Path, root: Path) -> Iterator[str]:
    """In words: what git keeps is there, nothing else is (beside PKG-INFO). ``root``: a clone."""
    top = f"gradwright-{version_of(root)}/"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(top) for name in archive.getnames() if name.startswith(top)}
        strange = [name for name in archive.getnames() if not name.startswith(top)]
    yield from (f"{sdist.name}: {name} stands outside {top}" for name in strange)
    kept = {path.relative_to(root).as_posix() for path in _kept(root)}
    yield from (f"{sdist.name}: {name} is missing" for name in sorted(kept - names))
    yield from (f"{sdist.name}: git does not keep {name}" for name in sorted(names - kept - {"PKG-INFO"}))


def _kept(root: Path) -> list[Path]:
    """What git keeps, or would: files that it doesn't ignore."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]
