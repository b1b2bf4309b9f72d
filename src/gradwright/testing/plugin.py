"""The pytest plugin: a fixture and a marker. Loaded in every pytest session, so it imports nothing but pytest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

_OPTIONS = ("level", "seed", "seconds", "allow")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "gradients(level='standard', seed=0, seconds=60, allow=()): a test of gradients; what the fixture "
        "`assert_gradients` takes unless a call says otherwise (gradwright)",
    )


@pytest.fixture
def assert_gradients(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``gradwright.testing.assert_gradients``, with the options of the nearest ``@pytest.mark.gradients``."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("gradients"))):  # the nearest one last, so that it counts
        unknown = sorted(set(mark.kwargs) - set(_OPTIONS))
        if unknown or mark.args:
            pytest.fail(
                f"@pytest.mark.gradients takes {', '.join(_OPTIONS)} by name, not "
                f"{', '.join([*map(repr, mark.args), *unknown])}",
                pytrace=False,
            )
        options |= mark.kwargs
    from gradwright.testing.assertion import assert_gradients

    return functools.partial(assert_gradients, **options)
