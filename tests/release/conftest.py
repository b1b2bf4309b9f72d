"""Files of tools/ are imported as Python has them that runs one: by their names, from that folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tools_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was imported from there is forgotten afterwards: their names are short."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(TOOLS)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(TOOLS):
            del sys.modules[name]
