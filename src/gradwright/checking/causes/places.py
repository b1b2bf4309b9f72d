"""Places along the axes of a tensor, in words."""

from __future__ import annotations

import torch


def place_of(entries: torch.Tensor, wrong: torch.Tensor, shape: torch.Size) -> str | None:
    """Which rows, columns or entries ``wrong`` ones fill, if every one of ``entries`` there is wrong and no other.

    >>> place_of(torch.arange(6), torch.tensor([False, False, False, True, True, True]), torch.Size([2, 3]))
    'last row'
    """
    if not bool(wrong.any()) or bool(wrong.all()) or not shape:
        return None
    for axis, (at, size) in enumerate(zip(torch.unravel_index(entries, shape), shape, strict=True)):
        inside = torch.zeros(size, dtype=torch.bool, device="cpu")
        inside[at[wrong]] = True
        if bool(inside[at[~wrong]].any()):
            continue
        return _in_words(inside.nonzero().flatten().tolist(), axis, size, len(shape))
    return None


def _in_words(filled: list[int], axis: int, size: int, dimensions: int) -> str | None:
    unit = "element" if dimensions == 1 else {0: "row", dimensions - 1: "column"}.get(axis, f"index of axis {axis}")
    if filled == [0]:
        return f"first {unit}"
    if filled == [size - 1]:
        return f"last {unit}"
    if len(filled) == 1:
        return f"{unit} {filled[0]}"
    if filled == list(range(filled[0], filled[-1] + 1)):
        return f"{unit}s {filled[0]} to {filled[-1]}"
    return None  # any set of places could be told so
