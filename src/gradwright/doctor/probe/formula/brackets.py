"""An expression and how strongly it binds: see ``spelling.STRENGTH``."""

from __future__ import annotations

Text = tuple[str, float]
PRODUCT = 6
MATRIX = 5.5  # a matrix product is bracketed in any other product


def bracketed(text: Text, strength: float) -> str:
    return text[0] if text[1] >= strength else f"({text[0]})"
