"""Which names are read once a run of statements is over: what it must leave as it would have."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.source.names import events, exposed
from gradwright.doctor.source.statements import DEFINITIONS, blocks

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def block_of(tree: ast.Module, line: int) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The block that holds the statement which begins at ``line``, and the statements around it, outermost first.

    Raises: LookupError.
    """
    stack: list[tuple[list[ast.stmt], list[ast.stmt]]] = [(tree.body, [])]
    while stack:
        block, around = stack.pop()
        for statement in block:
            if statement.lineno == line:
                return block, around
            if statement.lineno < line <= (statement.end_lineno or 0):
                stack += [(inner, [*around, statement]) for inner in blocks(statement)]
    raise LookupError(f"no statement begins at line {line}")


def read_after(tree: ast.Module, first: int, last: int) -> frozenset[str]:
    """Names that may be read after the statements from line ``first`` to ``last``, before they are bound again.

    >>> tree = ast.parse("for i in r:\\n  s = 0\\n  for j in q:\\n    t = j\\n    s += t\\n  print(s)\\nt = 1\\nuse(t)")
    >>> sorted(read_after(tree, 3, 5) & {"s", "t", "j"})
    ['s']
    """
    block, around = block_of(tree, first)
    function = next((node for node in reversed(around) if isinstance(node, DEFINITIONS)), None)
    inside = around[around.index(function) + 1 :] if function else around
    after = [statement for statement in block if statement.lineno > last]
    found = exposed(after)
    for statement in reversed(inside):
        if isinstance(statement, _LOOPS):
            found |= exposed([statement])
        holder, _ = block_of(tree, statement.lineno)
        found |= exposed([other for other in holder if other.lineno > (statement.end_lineno or 0)])
    found |= _captured(function.body if function else tree.body)
    if function is not None:
        found |= {
            name for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        }
    return frozenset(found)


def _captured(body: Sequence[ast.stmt]) -> set[str]:
    """What nested functions read: they may be called at any time."""
    return {event.name for event in events(body) if event.kind == "captured"}
