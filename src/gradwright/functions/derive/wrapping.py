"""Long statements over several lines."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 96


def wrapped(line: str, width: int = WIDTH) -> list[str]:
    """A long statement over several lines, broken at the commas of its longest outermost call."""
    if len(line) <= width:
        return [line]
    groups, depth, start = [], 0, 0
    for place, letter in enumerate(line):
        if letter in "([{":
            if depth == 0:
                start = place
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                groups.append((start, place))
    if not groups:
        return [line]
    start, end = max(groups, key=lambda group: group[1] - group[0])
    if end - start < 3:
        return [line]
    return [line[: start + 1], *pack(parts_of(line[start + 1 : end])), line[end:]]


def parts_of(text: str) -> list[str]:
    """The arguments of a call."""
    depth, parts, current = 0, [], ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()] if current.strip() else parts


def pack(parts: Sequence[str]) -> list[str]:
    lines, current = [], ""
    for part in parts:
        if current and len(current) + len(part) + 8 > WIDTH:
            lines.append(f"    {current}")
            current = ""
        current = f"{current} {part},".strip()
    return [*lines, f"    {current.removesuffix(',')}"]
