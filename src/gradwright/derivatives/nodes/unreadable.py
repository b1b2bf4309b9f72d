"""Kinds of nodes whose rule does not fit the torch at hand: it reads something that this torch does not save.

What a rule reads is known when it is read, in the middle of a call. The kind then counts as one without a rule, and the
call is made again: by a slower, general way, or refused as for any unknown node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gradwright.ground.torch_versions.nodes import UnreadableNode

P = ParamSpec("P")
T = TypeVar("T")

#: Short names of the kinds that were met.
_unreadable: set[str] = set()


def is_unreadable(name: str) -> bool:
    """Whether nodes of this short name can't be read in this torch."""
    return name in _unreadable


def without_unreadable_rules(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, called again where a rule did not fit a node, without that rule. It may change nothing before."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return function(*args, **kwargs)
            except UnreadableNode as error:
                if error.kind in _unreadable:  # no rule read it
                    raise
                _unreadable.add(error.kind)

    return call
