"""A function as ``gw.diagnose`` would have it: its file with every fix applied, loaded again."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import gradwright as gw
from gradwright.doctor.mending.combining import merged
from gradwright.doctor.session.hunks import Edit, applied, edits_of
from gradwright.doctor.session.model import Finding
from gradwright.errors import UsageError


@dataclass(frozen=True)
class Mended:
    """``function``: None where no fix was offered. ``source``: of the function as mended, or as it is.

    ``told``: the codes of the fixes, or what the report says instead of offering one. ``seconds``: of the diagnosis.
    """

    function: Callable[..., Any] | None
    source: str
    told: tuple[str, ...]
    seconds: float


def mended(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Mended:
    """Diagnose ``function`` and apply what is offered for it, as ``gradwright fix --apply`` would (nothing unsafe)."""
    start = time.monotonic()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            report = gw.diagnose(function, *arguments)
    except UsageError as error:
        return Mended(None, inspect.getsource(function), (" ".join(str(error).split()),), time.monotonic() - start)
    seconds = time.monotonic() - start
    path = Path(inspect.getfile(function))
    lines = path.read_text().splitlines(keepends=True)
    taken: list[tuple[Edit, ...]] = []
    codes: list[str] = []
    for finding in sorted(report.findings, key=_seconds_left):
        if finding.fix is None or finding.fix.unsafe:
            continue
        edits = edits_of(finding.fix.diff, lines)
        if not any(_overlap(one, other) for one in edits for others in taken for other in others):
            taken.append(edits)
            codes.append(finding.code)
    if not taken:
        told = _reasons(report.findings) or tuple(one.why for one in report.not_examined) or ("no finding",)
        return Mended(None, inspect.getsource(function), told, seconds)
    module = load("".join(applied(merged(taken), lines)), path.stem)
    changed = getattr(module, function.__name__)
    return Mended(changed, inspect.getsource(changed), tuple(codes), seconds)


def load(text: str, name: str) -> ModuleType:
    """A module of this text, from a file of its own, so that its source can be read."""
    folder = Path(tempfile.mkdtemp(prefix="mended-"))
    path = folder / f"mended_{name}_{folder.name.replace('-', '_')}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _seconds_left(finding: Finding) -> float:
    """The fix that leaves least time first: of two that overlap, that one is taken."""
    proof = finding.fix.proof if finding.fix else None
    return proof.after_seconds if proof and proof.after_seconds is not None else float("inf")


def _overlap(one: Edit, other: Edit) -> bool:
    return one != other and one.first < other.last and other.first < one.last


def _reasons(findings: tuple[Finding, ...] | list[Finding]) -> tuple[str, ...]:
    told = [
        f"{one.code}: {tried.counterexample}" for one in findings for tried in one.candidates if tried.counterexample
    ]
    told += [f"{one.code}: {one.fix.unsafe}" for one in findings if one.fix and one.fix.unsafe]
    told = told or [f"{one.code}: {hint}" for one in findings for hint in one.hints]
    return tuple(told) or tuple(f"{one.code}: {one.message}" for one in findings)
