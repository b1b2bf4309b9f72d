"""Trials run in forked children that may write nothing: what one of them compiles, the others find all the same."""

from pathlib import Path
from typing import Any

import pytest
from tests.kernels.machine.by_hand import Call, scaled, times

from gradwright.ground.forked import in_child
from gradwright.kernels.machine import compiling, objects, processor
from gradwright.kernels.machine.compiling import kernel

SOURCE = scaled(3)


def origin() -> str:
    """Where the kernel came from, if it does what it should."""
    made = kernel(SOURCE, "threefold")
    assert Call().run(made) == times(3)
    return made.origin


@pytest.fixture(autouse=True)
def nothing_brought_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_from_children", {})


def test_what_a_child_compiled_its_parent_keeps_on_disk(cache: Path) -> None:
    assert in_child(origin, seconds=60).value == "compiled"
    assert {path.suffix for path in cache.iterdir()} == {".o", ".py"}
    assert compiling._kernels == {}
    assert [in_child(origin, seconds=60).value, origin()] == ["memory", "memory"]


def test_and_for_its_next_children_where_there_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADWRIGHT_CACHE_DIR", "")
    found = [in_child(origin, seconds=60).value for _ in range(2)]
    assert found == ["compiled", "memory"]


def test_a_child_reads_what_is_on_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert origin() == "compiled"
    monkeypatch.setattr(compiling, "_kernels", {})
    assert in_child(origin, seconds=60).value == "disk"


def test_a_child_of_a_child_hands_it_on(cache: Path) -> None:
    assert in_child(lambda: in_child(origin, seconds=60).value, seconds=60).value == "compiled"
    assert in_child(origin, seconds=60).value == "memory"


def test_what_cannot_be_loaded_here_is_compiled_here(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object code may need a library that the child had loaded, and its parent has not."""
    assert in_child(origin, seconds=60).value == "compiled"
    asked: list[object] = []

    def not_twice(*given: Any) -> tuple[int, ...]:
        asked.append(given)
        if len(asked) <= 2:
            raise RuntimeError("symbol not found")
        return processor.addresses_of(*given)

    monkeypatch.setattr(compiling, "addresses_of", not_twice)
    assert origin() == "compiled"
    assert len(asked) == 3


def test_a_child_that_raises_brings_it_home_too(cache: Path) -> None:
    assert in_child(lambda: origin() + str(1 / 0), seconds=60).how == "raised"
    assert objects.found(compiling._key(SOURCE)) is not None
