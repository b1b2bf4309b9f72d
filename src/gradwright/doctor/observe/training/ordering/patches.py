"""What is put around calls of torch, and taken off again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gradwright.doctor.observe.guard import OnFault, guarded

Before = Callable[[tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[Any, Any], None]


def _nothing(token: Any, result: Any) -> None:
    """After a call of which the beginning was enough."""


class Patches:
    """``around`` puts something before and after a call; what is traced by a compiler is left alone."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._restore: list[Callable[[], None]] = []

    def around(self, owner: Any, name: str, before: Before, after: After = _nothing) -> None:
        """``before(args, kwargs)`` may give back a token, which ``after(token, result)`` gets, also if the call raised
        (its result is None then)."""
        self.replace(owner, name, lambda original: self._wrapped(original, before, after))

    def replace(self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """An ``owner`` that inherits the name is left alone. Raises: AttributeError, where it has no such name."""
        if not hasattr(owner, name):
            raise AttributeError(f"{owner.__name__} has no {name}")
        original = vars(owner).get(name)
        if original is None:
            return
        setattr(owner, name, wrap(original))
        self._restore.append(functools.partial(setattr, owner, name, original))

    def remove(self) -> None:
        while self._restore:
            self._restore.pop()()

    def _wrapped(self, original: Callable[..., Any], before: Before, after: After) -> Callable[..., Any]:
        begin, end = guarded(before, self._on_fault), guarded(after, self._on_fault)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            token = begin(args, kwargs)
            result = None
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                end(token, result)

        return call
