"""Where in the user's files a recorded operation stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from gradwright.ground.torch_versions.nodes import forward_class

_INSIDE = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)\n\s*(?P<code>[^\n]*)')

HOW_TO_LEARN_LINES = (
    "its line is not recorded: run the forward under torch.autograd.set_detect_anomaly(True) once, and this message "
    "names it"
)


def line_of(node: Any) -> str | None:
    """File, line and code that recorded ``node``; None where nobody kept them.

    Autograd keeps the stack of every node while anomaly mode is on.  A custom Function is known by its class: then
    its backward's place is told.

    >>> x = torch.ones(2, requires_grad=True)
    >>> line_of(x.exp().grad_fn) is None
    True
    >>> with torch.autograd.set_detect_anomaly(True, check_nan=False):
    ...     y = x.exp()
    >>> "line 2" in line_of(y.grad_fn)
    True
    """
    for recorded in reversed(node.metadata.get("traceback_", ())):
        frame = _FRAME.search(recorded)
        if frame and not frame["file"].startswith(_INSIDE):
            code = f": {frame['code'].strip()}" if frame["code"] else ""
            return f"{frame['file']}, line {frame['line']}, in {frame['function']}{code}"
    return _function_line(node)


def _function_line(node: Any) -> str | None:
    """The backward of a custom Function: its file and line."""
    backward = backward_of(node)
    code = getattr(backward, "__code__", None)
    if code is None or code.co_filename.startswith(_INSIDE):
        return None
    return f"{code.co_filename}, line {code.co_firstlineno}, in {backward.__qualname__}"


def backward_of(node: Any) -> Any:
    """What a custom Function's author wrote as its backward, out of its decorators; None for a node of torch's own."""
    chain = decorated(node)
    return chain[-1] if chain else None


def decorated(node: Any) -> list[Any]:
    """The backward of a custom Function, and what it wraps, outermost first; empty for a node of torch's own."""
    author = forward_class(node)
    if author is None:
        return []
    own = author.__dict__.get("backward") or author.__dict__.get("vjp") or author.backward
    chain = [getattr(own, "__func__", own)]
    while hasattr(chain[-1], "__wrapped__"):
        chain.append(chain[-1].__wrapped__)
    return chain
