"""Sessions made by hand: files as they are, and fixes as old text and new."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.conduct import save
from gradwright.doctor.session.hunks import unified
from gradwright.doctor.session.model import Environment, Finding, Fix, Proof, Report, Script, Source
from gradwright.doctor.session.place import Location


def plain(data: bytes) -> str:
    return importlib.util.decode_source(data)


class Session:
    """A session of ``train.py`` in ``folder``; ``fix`` adds one by replacing text of a file, as that is then."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.argv = ("train.py", *arguments)
        self.module = ""
        self.sources: dict[str, Source] = {}
        self.findings: list[Finding] = []

    def file(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        self.knows(name)
        return path

    def knows(self, name: str) -> None:
        data = (self.folder / name).read_bytes()
        self.sources[name] = Source(name, hashlib.sha256(data).hexdigest(), plain(data))

    def fix(
        self, old: str, new: str, *more: tuple[str, str], name: str = "train.py", code: str = "GW301",
        unsafe: str = "", saves: float = 1.0, subject: str = "Slow", severity: str = "warning",
    ) -> Finding:  # fmt: skip
        text = self.sources[name].text
        changed = text
        for before, after in ((old, new), *more):
            assert before in changed
            changed = changed.replace(before, after, 1)
        lines = [part.splitlines(keepends=True) for part in (text, changed)]
        proof = Proof("verified", ("x",), 0.0, 1e-6, 0, saves, 0.0)
        fix = Fix("".join(unified(name, *lines)), proof, unsafe)
        line = text[: text.index(old)].count("\n") + 1
        return self.found(Location(name, line, 1), code, severity, subject, fix)

    def found(self, at: Location, code: str, severity: str, subject: str, fix: Fix | None) -> Finding:
        made = Finding(code, code.lower(), "speed", severity, subject, at, f"{subject} is slow", "it is", fix=fix)
        self.findings.append(made)
        return made

    @property
    def report(self) -> Report:
        return Report(
            environment=Environment(cwd=str(self.folder)),
            script=Script(argv=self.argv, exit_code=0, module=self.module),
            sources=tuple(self.sources.values()),
            findings=tuple(self.findings),
        )

    def keep(self, name: str = ".gradwright/last.json") -> Path:
        path = self.folder / name
        save(self.report, path)
        return path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = Session(tmp_path / "work")
    made.folder.mkdir()
    return made


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, by its relative path, and what is in it."""

    def files(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and ".gradwright" not in path.relative_to(folder).parts
        }

    return files
