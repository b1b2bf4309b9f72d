"""Gradients in a test suite: ``assert_gradients``, as a pytest fixture and a marker too; strategies for hypothesis; the
doctor's checks on the Functions that a session touches (``pytest --gradwright``, in ``gradwright.testing.diagnosed``).

The pytest plugin (``gradwright.testing.plugin``) is loaded in every session by its entry point, so nothing here imports
torch until it is used; the strategies (``gradwright.testing.strategies``) need hypothesis, which Gradwright doesn't
install.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwright.testing.assertion import assert_gradients as assert_gradients

__all__ = ["assert_gradients"]


def __getattr__(name: str) -> Any:
    if name == "assert_gradients":
        from gradwright.testing.assertion import assert_gradients

        return assert_gradients
    raise AttributeError(f"module 'gradwright.testing' has no attribute {name!r}")
