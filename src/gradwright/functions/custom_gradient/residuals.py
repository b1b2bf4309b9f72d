"""What a forward hands over to its backward, beside its inputs and its output."""

from __future__ import annotations

from typing import Any

from gradwright.functions.custom_gradient.messages import complaint


class Residuals:
    """Values by name that a forward made for its backward; written ``gw.residuals(mask=mask)``."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"residuals({', '.join(self.values)})"


def residuals(**values: Any) -> Residuals:
    """What the forward of a ``custom_gradient`` hands over to its backward: ``return out, gw.residuals(mask=mask)``.

    ``values``: tensors, trees of tensors, or anything else, by the name under which the backward asks for it. They are
    no part of what the call returns, and only those that the backward names are kept.
    Cost: none beyond keeping them.  Raises: UsageError, if there are none.

    A residual that is a floating-point tensor has no derivative of its own: see ``custom_gradient`` on second
    derivatives. A mask (bool) or an index (integer) needs none.

    >>> residuals(mask=1)
    residuals(mask)
    """
    if not values:
        raise complaint("residuals() hands nothing over", do="name what the backward needs: gw.residuals(mask=mask)")
    return Residuals(values)
