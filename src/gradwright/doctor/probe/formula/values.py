"""What a recorded run computed: values, each the result of one torch operation of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


class NoFormula(Exception):
    """This run has no formula that a reader would want; the message says why."""


@dataclass(eq=False)
class Value:
    """``op``: an OpOverload, or one of "input", "cotangent", "outside" (all three called ``name``), "number" (its
    argument) and "item" (of a tuple: value and place). ``name``: what the forward's author calls it, "" if unknown."""

    op: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    name: str = ""

    @property
    def called(self) -> str:
        """The operation's name, without its overload."""
        return self.op if isinstance(self.op, str) else str(self.op.overloadpacket.__name__)

    @property
    def is_leaf(self) -> bool:
        return self.op in ("input", "cotangent", "outside", "number")


def values_in(tree: Any) -> Iterator[Value]:
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from values_in(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from values_in(item)


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with ``change`` applied to each leaf."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(item, change) for item in tree) if type(tree) in (list, tuple) else tree
    if isinstance(tree, dict):
        return {key: mapped(item, change) for key, item in tree.items()}
    return change(tree)


def in_order(results: Iterable[Value], stop: Iterable[Value] = ()) -> list[Value]:
    """The values that ``results`` are made of, each after those that it is made of; those in ``stop`` stand for
    themselves."""
    order: list[Value] = []
    known: set[Value] = set(stop)
    waiting = [(value, False) for value in reversed(list(results))]
    while waiting:
        value, ready = waiting.pop()
        if value in known:
            continue
        if ready:
            known.add(value)
            order.append(value)
        else:
            waiting.append((value, True))
            waiting += [(one, False) for one in values_in((value.args, value.kwargs)) if one not in known]
    return order
