"""What the loss's own source says, where it can be had: the masks in it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import torch

from gradwright.checking.context import is_function
from gradwright.ground.masks import Masks, mismatched_masks
from gradwright.ground.syntax import dotted_names


def masks_of(inner: Any) -> Iterator[Masks]:
    """Pairs of masks in the source of a loss that are meant to complement each other and do not."""
    function = _function(inner)
    if function is None:
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        first = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
        if first is not None:
            yield from mismatched_masks(first.body, _Names(function).dotted)
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return


def _function(inner: Any) -> types.FunctionType | None:
    """The Python function that computes the value."""
    target = inner
    if is_function(inner) or isinstance(inner, torch.nn.Module):
        target = inner.forward
    elif not inspect.isfunction(inner) and not inspect.ismethod(inner):
        target = vars(type(inner)).get("__call__")
    target = inspect.unwrap(getattr(target, "__func__", target)) if target is not None else None
    return target if isinstance(target, types.FunctionType) else None


class _Names:
    """What the names in a function mean, by what they are bound to where it was defined."""

    def __init__(self, function: types.FunctionType) -> None:
        self.scope = function.__globals__

    def dotted(self, node: ast.AST) -> str:
        names = dotted_names(node)
        if not names:
            return ""
        root, *rest = names
        bound = self.scope.get(root)
        if isinstance(bound, types.ModuleType):
            first = bound.__name__
        elif callable(bound) and str(getattr(bound, "__module__", "")).startswith("torch"):
            first = f"torch.{root}"
        else:
            first = root
        return ".".join([first, *rest])
