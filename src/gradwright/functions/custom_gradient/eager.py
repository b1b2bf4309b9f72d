"""The Function of the plain eager call: ``forward(ctx, ...)``, one class per combination of argument types.

NOTE [eager fast path]: torch's own ``Function.apply`` binds arguments and unwraps them in Python, a third of the cost
of a small call. The C++ ``apply`` below it is called directly, and everything that the types of the arguments decide
(which are tensors, what is saved, in which order the backward is handed it) is decided once, when they are first met.
What is left per call: two version counters per tensor, and the shapes of inputs that are not saved.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.autocast import autocast_of, under
from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.contract import Rule
from gradwright.functions.custom_gradient.flat import Flat
from gradwright.functions.custom_gradient.mutated import require_unchanged, versions_of
from gradwright.functions.custom_gradient.quick import Pull, metas_of, quick_pull
from gradwright.functions.custom_gradient.returned import by_leaf
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.several import forward_of_several, gradients_of
from gradwright.functions.custom_gradient.trees import TENSOR, Layout
from gradwright.functions.custom_gradient.watched import watched
from gradwright.functions.custom_gradient.written import text
from gradwright.functions.custom_gradient.written_several import Kind, metas_of_kind
from gradwright.functions.custom_gradient.written_several import text as text_of_several
from gradwright.ground.torch_versions.apply import is_apply_replaced, quick_apply
from gradwright.ground.torch_versions.dynamo import uncompiled
from gradwright.ground.torch_versions.levels import unwrap_if_dead
from gradwright.ground.torch_versions.modes import is_any_autocast_enabled
from gradwright.ground.torch_versions.nodes import backward_class
from gradwright.ground.torch_versions.tensors import version_of

Apply = Callable[..., Any]


@uncompiled
def eager_apply(definition: Definition, types: tuple[type, ...], output: Layout) -> Apply | None:
    """``apply`` for positional arguments of these types; ``None``, where they may hold trees of tensors. ``output``:
    what the first call returned, and others probably will.

    It returns the output, where that is one tensor and no residual is asked for; else the tensors of the call's pool
    behind the inputs, and last the Call itself.
    """
    flat = Flat.of(definition, types)
    if flat is None:
        return None
    forward, backward = _forward(definition, flat), _backward(definition, flat)
    if definition.backward is not None and flat.alone:
        forward, backward = _by_hand(definition, definition.backward, flat, forward, backward)
    if (kind := Kind.of(definition, flat, output)) is not None:
        forward, backward = _by_hand(definition, kind.rule, flat, forward, backward, kind)
    _tell_where_written(definition, forward, backward)
    methods = {
        **definition.named,
        "forward": staticmethod(uncompiled(forward)),
        "backward": staticmethod(uncompiled(backward)),
    }
    function: Any = type(definition.name, (torch.autograd.Function,), methods)
    backward_class(function).autocast = ()  # for every ctx that is not given one
    backward_class(function).call = None
    if is_apply_replaced():
        watched_apply: Apply = function.apply
        return watched_apply
    return quick_apply(function)


@uncompiled
def called(apply: Apply, args: Sequence[Any]) -> tuple[Any, Layout]:
    """The output of what ``eager_apply`` made, and its layout."""
    result = apply(*[unwrap_if_dead(value) if isinstance(value, Tensor) else value for value in args])
    if not isinstance(result, tuple):
        return result, TENSOR
    output: Layout = result[-1].output
    return output.fill(result), output


def _tell_where_written(definition: Definition, forward: Any, backward: Any) -> None:
    """For ``inspect``: the functions of the user, and the names of the inputs."""
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    inputs = [item for item in definition.inputs.signature.parameters.values() if item.kind in positional]
    plain = [item.replace(kind=inspect.Parameter.POSITIONAL_ONLY, default=inspect.Parameter.empty) for item in inputs]
    forward.__signature__ = inspect.Signature([context, *plain])
    forward.__wrapped__ = definition.inputs.forward
    backward.__wrapped__ = next(definition.rules).function


@uncompiled
def _by_hand(
    definition: Definition, rule: Rule, flat: Flat, forward: Any, backward: Any, kind: Kind | None = None
) -> tuple[Any, Any]:
    """See NOTE [written out]. ``forward`` and ``backward`` are those of the general code."""
    names = [flat.names[place] for place in flat.tensors]
    rows, where = flat.arguments([None] * len(flat.names)), rule.where

    def changed(tensors: Sequence[Tensor], before: Sequence[int]) -> None:
        require_unchanged(definition.inputs, tensors, names, before, versions_of(tensors))

    def settled(ctx: Any, cotangent: Tensor, saved: Sequence[Tensor], result: Any) -> Any:
        inputs = (
            metas_of(ctx, flat, saved, cotangent) if kind is None else metas_of_kind(kind, ctx, [cotangent] * kind.outs)
        )
        return flat.spread(by_leaf(result, rows, inputs[: len(rows)], flat.needs(ctx), where))

    def backward_of_any(ctx: Any, *given: Any) -> Any:
        if kind is not None and ctx.call is kind.call:
            ctx.metas = metas_of_kind(kind, ctx, given)
        return backward(ctx, *given)

    def several(ctx: Any, args: Sequence[Any], result: Any) -> Any:
        call = Call(definition, flat.arguments(args), len(flat.tensors))
        return forward_of_several(ctx, call, [args[place] for place in flat.tensors], result)

    scope = {
        "Tensor": Tensor,
        "autocast_is_on": is_any_autocast_enabled,
        "autocast_of": autocast_of,
        "CALL": kind and kind.call,
        "backward_of_any": backward_of_any,
        "defaults": tuple(flat.defaults.values()),
        "forward_of_any": forward,
        "function": definition.inputs.forward,
        "grad_is_on": torch.is_grad_enabled,
        "require_unchanged": changed,
        "rule": rule.function,
        "settled": settled,
        "several": several,
        "spread": flat.spread_if_it_is_one_each,
    }
    written = text(rule, flat) if kind is None else text_of_several(kind)
    exec(_code(written, definition.name), scope)
    return scope["forward"], scope["backward"]


@functools.cache
@uncompiled
def _code(written: str, name: str) -> CodeType:
    """Compiled once: a first call, which is watched, and all after it have the same text."""
    return compile(written, f"<custom_gradient {name}>", "exec")


def _forward(definition: Definition, flat: Flat) -> Callable[..., Any]:
    inputs, function, alone = definition.inputs, definition.inputs.forward, flat.alone
    tensors, saved, statics, unsaved = flat.tensors, flat.saved, flat.statics, flat.unsaved
    names = [flat.names[place] for place in tensors]

    def forward(ctx: Any, *args: Any) -> Any:
        try:
            before = [version_of(args[place]) for place in tensors]
        except RuntimeError:  # inference tensors have none
            before = []
        ctx.autocast = autocast_of([args[place] for place in tensors]) if is_any_autocast_enabled() else ()
        result = function(*args)
        if before and (after := [version_of(args[place]) for place in tensors]) != before:
            require_unchanged(inputs, [args[place] for place in tensors], names, before, after)
        if not alone or not isinstance(result, Tensor):
            call = Call(definition, flat.arguments(args), len(tensors))
            return forward_of_several(ctx, call, [args[place] for place in tensors], result)
        pool = (*args, result)
        ctx.save_for_backward(*[pool[place] for place in saved])
        if unsaved:
            ctx.unsaved = [(args[place].shape, args[place].dtype) for place in unsaved]
        if statics:
            ctx.statics = [args[place] for place in statics]
        return result

    return forward


def _backward(definition: Definition, flat: Flat) -> Callable[..., Any]:
    pull = quick_pull(definition, flat) if flat.alone else None

    def backward(ctx: Any, cotangent: Any, *more: Any) -> Any:
        if more or pull is None:
            return flat.spread(gradients_of(ctx, (cotangent, *more[:-1]), flat.needs(ctx)))
        autocast = ctx.autocast
        if autocast or is_any_autocast_enabled():
            with under(autocast):
                return _once_or_twice(pull, ctx, cotangent, definition)
        if torch.is_grad_enabled():
            return _once_or_twice(pull, ctx, cotangent, definition)
        return pull(ctx, cotangent, ctx.saved_tensors, False)

    return backward


def _once_or_twice(pull: Pull, ctx: Any, cotangent: Tensor, definition: Definition) -> Any:
    """The gradients, watched where they have a graph."""
    cast = bool(ctx.autocast)
    if not torch.is_grad_enabled():
        return pull(ctx, cotangent, ctx.saved_tensors, cast)

    def rows(given: Any, kept: Any) -> Any:
        row = pull(ctx, given[0], kept, cast)
        return row if isinstance(row, tuple) else (row,)

    where = next(definition.rules).where
    return tuple(watched(rows, [cotangent], ctx.saved_tensors, definition.name, where))
