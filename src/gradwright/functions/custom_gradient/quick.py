"""The backward of one call in its plain form: one output tensor, inputs that are no trees, no residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from gradwright.functions.custom_gradient.contract import Rule
from gradwright.functions.custom_gradient.flat import Flat
from gradwright.functions.custom_gradient.pulled import without_vjp
from gradwright.functions.custom_gradient.returned import Meta, by_leaf
from gradwright.functions.custom_gradient.rules import Definition

# Takes ctx, the cotangent, what was saved, whether to cast; gives the gradients by place of the arguments.
Pull = Callable[[Any, Tensor, Sequence[Tensor], bool], Any]
_Ask = Callable[[Any, Tensor, Sequence[Tensor]], Any]
_Fit = Callable[[Any, Sequence[Tensor], Any], Any]


def quick_pull(definition: Definition, flat: Flat) -> Pull:
    """The rules as one function. It raises UsageError, where what they return does not fit the inputs."""
    return _each(definition, flat) if definition.backward is None else _at_once(definition.backward, flat)


def _at_once(rule: Rule, flat: Flat) -> Pull:
    ask, fitting, where = _asking(rule, flat), _fitting(flat), rule.where
    rows = flat.arguments([None] * len(flat.names))

    def pull(ctx: Any, cotangent: Tensor, saved: Sequence[Tensor], cast: bool) -> Any:
        result = ask(ctx, cotangent, saved)
        row = fitting(ctx, saved, result)
        if row is None:
            metas = metas_of(ctx, flat, saved, cotangent)
            return flat.spread(by_leaf(result, rows, metas, flat.needs(ctx), where, cast))
        return row

    return pull


def _each(definition: Definition, flat: Flat) -> Pull:
    rows = {argument.name: argument for argument in flat.arguments([None] * len(flat.names))}
    given = [(place, name, definition.vjps.get(name)) for place, name in enumerate(flat.names) if place in flat.tensors]
    rules = [(place, rows[name], _asking(rule, flat), rule.where) for place, name, rule in given if rule is not None]
    without = [(place, name) for place, name, rule in given if rule is None]

    def pull(ctx: Any, cotangent: Tensor, saved: Sequence[Tensor], cast: bool) -> Any:
        needs, metas = ctx.needs_input_grad, metas_of(ctx, flat, saved, cotangent)
        found: list[Tensor | None] = [None] * len(flat.names)
        for place, name in without:
            if needs[place]:
                raise without_vjp(definition, name)
        for place, row, ask, where in rules:
            if needs[place]:
                result = ask(ctx, cotangent, saved)
                found[place] = by_leaf(result, [row], metas, flat.needs(ctx), where, cast)[row.start]
        return tuple(found)

    return pull


def _asking(rule: Rule, flat: Flat) -> _Ask:
    """The rule's function, called with what it asks for."""
    function, picks, positional, keywords = rule.function, flat.picks(rule), len(rule.wants), rule.keywords
    statics, defaults = bool(flat.statics), tuple(flat.defaults.values())
    if not keywords and picks == list(range(len(flat.saved))):
        return lambda ctx, cotangent, saved: function(cotangent, *saved)

    def ask(ctx: Any, cotangent: Tensor, saved: Sequence[Tensor]) -> Any:
        bag = (*saved, *(ctx.statics if statics else ()), *defaults)
        values = [bag[pick] for pick in picks]
        return function(cotangent, *values[:positional], **dict(zip(keywords, values[positional:], strict=True)))

    return ask


def _fitting(flat: Flat) -> _Fit:
    """What a rule returned as the row of gradients that the engine expects, one per argument, each like its input;
    ``None`` where it is not as plain as that."""
    count, kept, few = len(flat.names), len(flat.saved), len(flat.tensors)
    order = [*flat.saved, *flat.unsaved]
    at = [order.index(place) if place in flat.tensors else -1 for place in range(count)]
    if count == 1 and not flat.unsaved:
        (only,) = at

        def fit_one(ctx: Any, saved: Sequence[Tensor], result: Any) -> Any:
            like = saved[only]
            fits = isinstance(result, Tensor) and result.shape == like.shape and result.dtype is like.dtype
            return result if fits else None

        return fit_one

    def fit(ctx: Any, saved: Sequence[Tensor], result: Any) -> Any:
        row = result if type(result) is tuple else (result,)
        if len(row) != count:
            if len(row) != few:
                return None
            row = flat.spread(row)
        for gradient, place in zip(row, at, strict=True):
            if gradient is None:
                continue
            if place < 0 or not isinstance(gradient, Tensor):
                return None
            shape, dtype = (saved[place].shape, saved[place].dtype) if place < kept else ctx.unsaved[place - kept]
            if gradient.shape != shape or gradient.dtype is not dtype:
                return None
        return row

    return fit


def metas_of(ctx: Any, flat: Flat, saved: Sequence[Tensor], cotangent: Tensor) -> list[Meta]:
    """Shape and dtype of every tensor of the inputs."""
    found = {place: (tensor.shape, tensor.dtype) for place, tensor in zip(flat.saved, saved, strict=True)}
    if flat.unsaved:
        found |= dict(zip(flat.unsaved, ctx.unsaved, strict=True))
    return [Meta(*found[place], cotangent.device) for place in flat.tensors]
