"""What stands around a line: its function, and the lines next to it."""

from __future__ import annotations

import ast

from gradwright.doctor.source.statements import definitions


def function_source(text: str, line: int) -> tuple[int, int, str]:
    """First and last line (decorators included) and ``__qualname__`` of the innermost function around ``line``.

    ``(1, number of lines, "<module>")`` outside every function, and for text that Python can't parse.

    >>> function_source("x = 1\\n@mark\\ndef f():\\n    return 1\\n", 4)
    (2, 4, 'f')
    """
    best = (1, max(1, len(text.rstrip("\n").split("\n"))), "<module>")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return best
    for placed in definitions(tree):
        node = placed.node
        if isinstance(node, ast.ClassDef):
            continue
        first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
        last = node.end_lineno or node.lineno
        if first <= line <= last:
            best = (first, last, placed.qualname)  # definitions come outermost first
    return best


def lines_around(text: str, line: int, end_line: int = 0, *, margin: int = 2) -> tuple[tuple[int, str], ...]:
    """Numbered lines from ``margin`` before ``line`` to ``margin`` after ``end_line``, without blank ones at the ends.

    >>> lines_around("a\\n\\nb\\nc\\nd\\n", 3, margin=1)
    ((3, 'b'), (4, 'c'))
    """
    lines = text.rstrip("\n").split("\n")
    chosen = list(range(max(1, line - margin), min(len(lines), max(line, end_line) + margin) + 1))
    while chosen and not lines[chosen[0] - 1].strip():
        chosen.pop(0)
    while chosen and not lines[chosen[-1] - 1].strip():
        chosen.pop()
    return tuple((number, lines[number - 1]) for number in chosen)
