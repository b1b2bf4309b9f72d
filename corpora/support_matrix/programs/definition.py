"""Mistakes of the author. Right: an error where the gradient is defined, before anything is trained."""

from __future__ import annotations

from typing import Any

from ..row import row
from .values import leaf

SECTION = "Errors at definition"
AT_DEFINITION = "an error at definition"


def _when(define: Any) -> tuple[Any, Any]:
    try:
        function = define()
    except Exception:
        return AT_DEFINITION, AT_DEFINITION
    x = leaf()
    function(x).sum().backward()
    return x.grad, AT_DEFINITION


@row(SECTION, "the backward wants what was never saved")
def unknown_name(column: Any) -> tuple[Any, Any]:
    """It asks for `y`, where the forward knows `x` only."""
    return _when(column.define_with_unknown_name)


@row(SECTION, "the backward takes no cotangent")
def wrong_arity(column: Any) -> tuple[Any, Any]:
    """Its signature is empty."""
    return _when(column.define_without_cotangent)


@row(SECTION, "the backward names a builtin")
def builtin_name(column: Any) -> tuple[Any, Any]:
    """It computes with `input`, which it never received: Python's builtin function."""
    return _when(column.define_with_builtin)


@row(SECTION, "an input is called output")
def input_called_output(column: Any) -> tuple[Any, Any]:
    """The forward's parameter has the name that the backward uses for what the forward returns."""
    return _when(column.define_with_input_called_output)


@row(SECTION, "one gradient too many")
def too_many(column: Any) -> tuple[Any, Any]:
    """The backward returns two gradients, both tensors, for one input. (It shows when it runs: raising is enough.)"""
    return _when(column.define_with_two_gradients)
