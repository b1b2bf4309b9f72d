"""The pytest plugin: a fixture, markers, and ``--gradwright``, the doctor's checks on the Functions that tests touch.

Loaded in every pytest session, so it imports nothing but pytest, and patches nothing before ``--gradwright`` is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

_OPTIONS = ("level", "seed", "seconds", "allow")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradwright", "the doctor's checks (gradwright)")
    group.addoption(
        "--gradwright",
        action="store_true",
        default=None,
        help="After the tests, try every custom autograd.Function that they called: is its gradient right, why is it "
        "slow, what mends it. Errors and warnings make a green session exit 1.",
    )
    group.addoption("--no-gradwright", dest="gradwright", action="store_false", help="Not that, whatever the ini says.")
    group.addoption("--gradwright-exit-zero", action="store_true", help="Let findings leave the exit status alone.")
    group.addoption("--gradwright-select", metavar="CODES", help="Only these codes or their beginnings: GW1,GW301.")
    group.addoption("--gradwright-ignore", metavar="CODES", help="Not these codes.")
    group.addoption(
        "--gradwright-seconds", metavar="S", type=float, help="Try Functions for at most S seconds in all.  [25]"
    )
    group.addoption(
        "--gradwright-session", metavar="FILE", help="Keep the session in this file.  [.gradwright/last.json]"
    )
    parser.addini("gradwright", "as if --gradwright were given", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before any conftest.py, which may import what binds `MyFunction.apply`: later such calls would not be seen.
    _diagnose_if_asked(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "gradients(level='standard', seed=0, seconds=60, allow=()): a test of gradients; what the fixture "
        "`assert_gradients` takes unless a call says otherwise (gradwright)",
    )
    config.addinivalue_line(
        "markers",
        "no_gradwright: the Functions that this test calls are not examined under --gradwright, unless others call "
        "them too (gradwright)",
    )
    _diagnose_if_asked(config, config.option)  # where a conftest.py brought this plugin


def _diagnose_if_asked(config: pytest.Config, given: Any) -> None:
    asked = config.getini("gradwright") if given.gradwright is None else given.gradwright
    if asked and not given.collectonly and not config.pluginmanager.hasplugin("gradwright-session"):
        from gradwright.testing.diagnosed.session import DiagnosedSession

        config.pluginmanager.register(DiagnosedSession(config, given), "gradwright-session")


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
