"""A backward, written for you: traced, simplified, its residuals chosen, checked, and printed."""

from typing import TYPE_CHECKING, Any

from gradwright.functions.derive.derive import derive

if TYPE_CHECKING:
    from gradwright.functions.derive.derived import Derived

__all__ = ["Derived", "derive"]


def __getattr__(name: str) -> Any:
    if name == "Derived":  # its imports take seconds
        from gradwright.functions.derive.derived import Derived

        return Derived
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
