"""Run a suite under pytest in a process of its own: a fork of the zygote, which has torch, or a cold one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest
from tests.warm import OURS

from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.model import Report

# What a warm interpreter takes begins as what the doctor starts. PYTHONPATH is read by cold ones only.
_RUN = (
    f"{OURS}options import Options; import os, sys, pytest; sys.path.insert(0, os.getcwd()); "
    "sys.exit(pytest.main(sys.argv[1:]))"
)

SQUARES = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * grad_output * x

class Halved(Square):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x

def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)
"""


@dataclass
class Session:
    """What pytest said and how it exited; ``report`` is the kept session, ``None`` if there is none."""

    code: int
    text: str
    report: Report | None
    codes: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.codes = sorted(f"{one.code} {one.subject}" for one in self.report.findings) if self.report else []

    @property
    def flowing(self) -> str:
        """Without line breaks, which depend on the width of the terminal."""
        return " ".join(self.text.split())

    def why_not(self, what: str) -> str:
        assert self.report is not None
        return next((gap.why for gap in self.report.not_examined if gap.what == what), "")


@pytest.fixture
def suite(tmp_path: Path, warm_python: Path) -> Callable[..., Session]:
    """``suite({"test_it.py": text}, "--gradwright", cold=False)``; the module ``squares`` lies beside the tests."""

    def run(files: dict[str, str], *words: str, cold: bool = False, env: dict[str, str] | None = None) -> Session:
        for name, text in {"squares.py": SQUARES, **files}.items():
            (tmp_path / name).write_text(dedent(text))
        kept = tmp_path / ".gradwright" / "last.json"
        kept.unlink(missing_ok=True)
        if not cold:  # in a fork of the zygote, where the plugin was imported before pytest began, of which 9.2 warns
            words = (
                *words,
                "-W",
                "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning",
            )
        if "--gradwright" in words:
            words = (*words, "--gradwright-seconds", "200")  # on a busy machine, too
        start = [sys.executable, "-m", "pytest"] if cold else [str(warm_python), "-c", _RUN]
        done = subprocess.run(
            [*start, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])),
                "COLUMNS": "100",
                **(env or {}),
            },
        )
        report = from_json(kept.read_text()) if kept.is_file() else None
        return Session(done.returncode, done.stdout + done.stderr, report)

    return run


@pytest.fixture
def outcomes(tmp_path: Path) -> Callable[[], dict[str, str]]:
    """Of the last run with ``-p outcomes``: each test's outcome, by its id."""
    (tmp_path / "outcomes.py").write_text(
        dedent("""
        import json, pathlib
        seen = {}
        def pytest_runtest_logreport(report):
            if report.when == "call" or report.outcome != "passed":
                seen[report.nodeid] = report.outcome
        def pytest_unconfigure(config):
            pathlib.Path("outcomes.json").write_text(json.dumps(seen))
        """)
    )
    return lambda: json.loads((tmp_path / "outcomes.json").read_text())
