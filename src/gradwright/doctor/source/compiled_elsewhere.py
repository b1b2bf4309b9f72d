"""Functions that are compiled from their bytecode by something other than Python: a hook in them would break that.

Numba is the one: it types every global name that a function uses. What reads the text instead (``torch.jit.script``,
Triton) never sees the hook; ``torch.compile`` knows it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.ground.syntax import dotted_names

_WORDS = ("jit", "vectorize", "cfunc", "stencil", "overload")  # numba.njit, guvectorize, cuda.jit ...


def compiled_elsewhere(tree: ast.Module, text: str) -> list[tuple[int, int]]:
    """First and last lines of the functions that are decorated so, or handed to such a compiler by name.

    Cost: a search for five words, for most files.

    >>> text = "@njit(fastmath=True)\\ndef f(x):\\n    return x\\ndef g(x):\\n    return x\\nfast = numba.jit(g)"
    >>> compiled_elsewhere(ast.parse(text), text)
    [(2, 3), (4, 5)]
    """
    if not any(word in text for word in _WORDS):
        return []
    handed = {name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in _handed_over(node)}
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name in handed or any(_compiles(mark) for mark in node.decorator_list))
    ]


def _handed_over(call: ast.Call) -> Iterator[str]:
    """``f`` in ``njit(f)`` and in ``njit(parallel=True)(f)``."""
    if _compiles(call.func):
        yield from (argument.id for argument in call.args if isinstance(argument, ast.Name))


def _compiles(node: ast.expr) -> bool:
    """``njit``, ``numba.cuda.jit``, ``njit(fastmath=True)``."""
    names = dotted_names(node.func if isinstance(node, ast.Call) else node)
    return bool(names) and any(word in names[-1] for word in _WORDS)
