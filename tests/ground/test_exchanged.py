"""Functions are found by their globals, also those that were frozen; what else was frozen is left alone."""

import gc
from collections.abc import Callable
from types import FunctionType
from unittest.mock import Mock

import pytest

from gradwright.ground.exchanged import exchanged_code

TEXT = "def outer():\n    def inner(x):\n        return 2 * x\n    return inner\n"
CHANGED = TEXT.replace("2 * x", "3 * x * one")


@pytest.fixture
def function() -> FunctionType:
    """An inner one, that nothing but the caller holds."""
    namespace = {"one": 1}
    exec(compile(TEXT, "net.py", "exec"), namespace)
    outer = namespace["outer"]
    assert isinstance(outer, FunctionType)
    return outer()


@pytest.fixture
def unfreezing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often the collector has unfrozen everything."""
    counted = Mock(wraps=gc.unfreeze)
    monkeypatch.setattr(gc, "unfreeze", counted)
    return lambda: counted.call_count


def exchange(function: FunctionType) -> int:
    """How many functions got other code: this one, and the one around it."""
    changed = compile(CHANGED, "net.py", "exec")
    with exchanged_code("net.py", changed, "one", [function.__globals__]) as number:
        assert function(7) == 21
    assert function(7) == 14
    return number


def test_what_was_frozen_before_a_namespace_is_not_looked_at(function: FunctionType, unfreezing: Callable) -> None:
    assert exchange(function) == 2
    assert unfreezing() == 0


def test_a_function_that_was_frozen_is_found_and_all_is_frozen_again(
    function: FunctionType, unfreezing: Callable
) -> None:
    gc.freeze()
    assert exchange(function) == 2
    assert unfreezing() == 1
    assert gc.get_freeze_count() > 0
