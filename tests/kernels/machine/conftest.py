"""Each test has an empty cache of its own, and a process that has compiled nothing yet."""

from pathlib import Path

import pytest

from gradwright.kernels.machine import compiling, objects


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "kernels"
    monkeypatch.setenv("GRADWRIGHT_CACHE_DIR", str(where))
    monkeypatch.setattr(compiling, "_kernels", {})
    monkeypatch.setattr(compiling, "_refused", {})
    monkeypatch.setattr(objects, "_pruned", set())
    return where
