"""Positional arguments that are tensors and plain values, no trees: who is saved, and what the backward is handed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from gradwright.functions.custom_gradient.contract import OUTPUT, Rule
from gradwright.functions.custom_gradient.returned import Argument
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.trees import TENSOR, flatten, never_holds_tensors

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Flat:
    """``names`` of the arguments by place; ``tensors`` are the places of tensors. Of the arguments and, behind them,
    the output: ``saved`` are the places of tensors kept, ``statics`` those of plain values kept; ``unsaved`` tensors
    are not. ``defaults``: plain values of parameters not given. ``alone``: no residual is asked for."""

    names: tuple[str, ...]
    tensors: tuple[int, ...]
    saved: tuple[int, ...]
    unsaved: tuple[int, ...]
    statics: tuple[int, ...]
    defaults: dict[str, Any]
    alone: bool

    @classmethod
    def of(cls, definition: Definition, types: Sequence[type]) -> Flat | None:
        """``None``, where an argument of these types may be a tree of tensors, or they don't fit the signature."""
        parameters = list(definition.inputs.signature.parameters.values())
        given, left = parameters[: len(types)], parameters[len(types) :]
        if len(given) < len(types) or any(parameter.kind not in _POSITIONAL for parameter in given):
            return None
        if any(p.default is p.empty or not never_holds_tensors(type(p.default)) for p in left):
            return None
        if not all(issubclass(kind, Tensor) or never_holds_tensors(kind) for kind in types):
            return None
        names = tuple(parameter.name for parameter in given)
        tensors = tuple(place for place, kind in enumerate(types) if issubclass(kind, Tensor))
        if not tensors:
            return None
        places = {name: place for place, name in enumerate((*names, OUTPUT))}
        defaults = {parameter.name: parameter.default for parameter in left}
        kept = [places[name] for name in definition.kept if name in places]
        saved = tuple(place for place in kept if place in tensors or place == len(names))
        return cls(
            names,
            tensors,
            saved,
            tuple(place for place in tensors if place not in saved),
            tuple(place for place in kept if place not in saved),
            defaults,
            all(name in places or name in defaults for name in definition.kept),
        )

    def picks(self, rule: Rule) -> list[int]:
        """Where the values that a rule asks for are in ``[*saved, *statics, *defaults]``."""
        names = (*self.names, OUTPUT)
        bag = [*(names[place] for place in (*self.saved, *self.statics)), *self.defaults]
        return [bag.index(name) for name in rule.names]

    @cached_property
    def _all_tensors(self) -> list[Argument] | None:
        """The arguments of any call, where they are all tensors."""
        plain = len(self.tensors) == len(self.names) and not self.defaults
        return [Argument(name, TENSOR, place) for place, name in enumerate(self.names)] if plain else None

    def arguments(self, args: Sequence[Any]) -> list[Argument]:
        """Those of one call, as the general case has them; of ``args`` only those that are no tensors are looked at."""
        if self._all_tensors is not None:
            return self._all_tensors
        found: list[Argument] = []
        start = 0
        for place, (name, value) in enumerate((*zip(self.names, args, strict=True), *self.defaults.items())):
            layout = TENSOR if place in self.tensors else flatten(value)[1]
            found.append(Argument(name, layout, start))
            start += layout.count
        return found

    def needs(self, ctx: Any) -> list[bool]:
        """Which of the tensors need a gradient."""
        wanted = ctx.needs_input_grad
        return [wanted[place] for place in self.tensors]

    def spread(self, of_tensors: Sequence[Any]) -> tuple[Any, ...]:
        """What there is for each tensor, by place of the arguments, ``None`` for the others."""
        row: list[Any] = [None] * len(self.names)
        for place, value in zip(self.tensors, of_tensors, strict=True):
            row[place] = value
        return tuple(row)

    def spread_if_it_is_one_each(self, of_tensors: Any) -> Any:
        """The same for a tuple with one entry per tensor; ``None`` for anything else."""
        fits = type(of_tensors) is tuple and len(of_tensors) == len(self.tensors)
        return self.spread(of_tensors) if fits else None
