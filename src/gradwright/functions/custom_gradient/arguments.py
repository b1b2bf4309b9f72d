"""The arguments of a call by the forward's parameters, as ``inspect`` binds them, in code that Dynamo can trace."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

Bound = list[tuple[str, Any]]


class Parameters:
    """Those of a signature: ``bind`` gives every one its value, ``spread`` makes a call of values."""

    def __init__(self, signature: inspect.Signature) -> None:
        kinds = inspect.Parameter
        rows = list(signature.parameters.values())
        self.signature = signature
        self.positional = [p.name for p in rows if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        self.by_name = {p.name for p in rows if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
        self.keywords = [p.name for p in rows if p.kind is kinds.KEYWORD_ONLY]
        self.rest = next((p.name for p in rows if p.kind is kinds.VAR_POSITIONAL), None)
        self.further = next((p.name for p in rows if p.kind is kinds.VAR_KEYWORD), None)
        self.defaults = {p.name: p.default for p in rows if p.default is not p.empty}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Every parameter with its value, in order. Raises: TypeError, as any function."""
        # In Dynamo of torch 2.9 a zip with strict=False is strict.
        given = dict(zip(self.positional[: len(args)], args[: len(self.positional)], strict=True))
        left = dict(kwargs)
        for name in kwargs:
            if name in self.by_name and name not in given:
                given[name] = left.pop(name)
        known = all(name in given or name in self.defaults for name in (*self.positional, *self.keywords))
        if not known or (left and self.further is None) or (len(args) > len(self.positional) and self.rest is None):
            self.signature.bind(*args, **kwargs)  # says what is wrong
        bound = [(name, given[name] if name in given else self.defaults[name]) for name in self.positional]
        if self.rest is not None:
            bound.append((self.rest, tuple(args[len(self.positional) :])))
        bound += [(name, given[name] if name in given else self.defaults[name]) for name in self.keywords]
        if self.further is not None:
            bound.append((self.further, left))
        return bound

    def spread(self, bound: Bound) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments out of what ``bind`` gave."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, value in bound:
            if name == self.rest:
                args += value
            elif name == self.further:
                kwargs.update(value)
            elif name in self.keywords:
                kwargs[name] = value
            else:
                args.append(value)
        return args, kwargs
