"""Parts for those who write gradients."""

from gradwright.functions.surrogate import surrogate, surrogate_reason

__all__ = ["surrogate", "surrogate_reason"]
