"""Is a loss a good one? Its kind is found out by calling it; then come the properties, one per file."""

from gradwright.checking.losses.check_loss import check_loss

__all__ = ["check_loss"]
