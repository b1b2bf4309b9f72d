"""What an exercise may ask to be defined: a function, an ``autograd.Function``, a ``gw.custom_gradient``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from gradwright.exercises.outcome import NotYet
from gradwright.functions.custom_gradient import CustomGradient

# From what the file defines, and its name, to what is called. Raises: NotYet, if it is something else.
Kind: TypeAlias = Callable[[Any, str], Callable[..., Any]]


def plain_function(defined: Any, name: str) -> Callable[..., Any]:
    if isinstance(defined, type) and issubclass(defined, torch.autograd.Function):
        raise NotYet(f"{name} is a class", do=f"let {name} be a function, which calls the class's apply")
    if not callable(defined):
        raise NotYet(f"{name} can't be called: it is {_article(defined)}", do=f"define it: def {name}(...)")
    return defined  # type: ignore[no-any-return]  # whatever can be called


def autograd_function(defined: Any, name: str) -> Callable[..., Any]:
    if not (isinstance(defined, type) and issubclass(defined, torch.autograd.Function)):
        raise NotYet(
            f"{name} is {_article(defined)}, not a torch.autograd.Function",
            why="the exercise is to write forward and backward by hand",
            do=f"class {name}(torch.autograd.Function), with the static methods forward(ctx, ...) and backward",
        )
    return defined.apply


def custom_gradient(defined: Any, name: str) -> Callable[..., Any]:
    if not isinstance(defined, CustomGradient):
        raise NotYet(
            f"{name} is {_article(defined)}: autograd derives its gradient, you have written none",
            why="the exercise is to write the backward by hand",
            do=f"put @gw.custom_gradient above def {name}, and @{name}.backward above the backward",
        )
    return defined


def _article(value: Any) -> str:
    """
    >>> _article(3), _article(len)
    ('an int', 'a plain function')
    """
    if callable(value) and not isinstance(value, type):
        return "a plain function"
    kind = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
