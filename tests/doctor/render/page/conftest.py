"""A page in a real browser; without one these tests are skipped, and say why."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Seen:
    """``results``: one per step. Of the rest nothing is expected of a page that is as it should be."""

    results: list[Any]
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def quiet(self) -> bool:
        """No dialog, no error, nothing on the console, and no request but for the page itself."""
        asked = [url for url in self.requests if not url.startswith("data:")]
        return not (self.console or self.dialogs or self.errors) and len(asked) == 1 and asked[0].startswith("file:")


Look = Callable[..., Seen]


def chromium() -> str | None:
    given = os.environ.get("GRADWRIGHT_CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[subprocess.Popen[str]]:
    executable = chromium()
    if executable is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on the PATH, and GRADWRIGHT_CHROMIUM is not set")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("Playwright's Python package is not installed")
    words = [sys.executable, str(Path(__file__).with_name("browser.py")), executable]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


@pytest.fixture
def look(browser: subprocess.Popen[str], tmp_path: Path) -> Look:
    """``look(html, ("js", "1 + 1"), ("press", "j"), width=360, scheme="dark", script=False)``."""

    def opened(
        html: str, *steps: tuple[str, str], width: int = 1280, scheme: str = "light", script: bool = True
    ) -> Seen:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        asked = {"url": path.as_uri(), "steps": steps, "width": width, "scheme": scheme, "script": script}
        assert browser.stdin is not None and browser.stdout is not None
        browser.stdin.write(json.dumps(asked) + "\n")
        browser.stdin.flush()
        answer = json.loads(browser.stdout.readline())
        assert "failed" not in answer, answer["failed"]
        return Seen(**answer)

    return opened
