"""The forward-mode rule of one call: tangents of the inputs in, tangents of the outputs out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.contract import Rule
from gradwright.functions.custom_gradient.messages import complaint, told
from gradwright.functions.custom_gradient.pulled import materialized, pulled_back
from gradwright.functions.custom_gradient.recomputed import tangents_of_residuals
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.transpose import NotLinear, transposed
from gradwright.ground.torch_versions.levels import (
    primal,
    set_forward_grad_enabled,
)


def pushed_forward(
    call: Call, tangents: Sequence[Tensor | None], pool: Sequence[Tensor], metas: Sequence[Meta]
) -> list[Tensor | None]:
    """One tangent per tensor of the pool behind the inputs, ``None`` where it can't have one.

    Raises: UsageError, where there is no rule to be had.
    """
    # NOTE [forward over forward]: torch runs a jvp with forward mode off, so that an outer level sees constants:
    # jacfwd(jacfwd(f)) of any Function is silently zero. It is turned on again here, and the tangents of this level
    # are taken off what is computed with.
    with set_forward_grad_enabled(True):
        pool = [primal(tensor) for tensor in pool]
        rule = call.definition.jvp
        of_outputs = _given(call, rule, tangents, pool, metas) if rule else _derived(call, tangents, pool, metas)
        return [*of_outputs, *tangents_of_residuals(call, tangents, pool, metas)]


def _outs(call: Call, metas: Sequence[Meta]) -> Sequence[Meta]:
    return metas[call.count : call.count + call.output.count]


def _derived(
    call: Call, tangents: Sequence[Tensor | None], pool: Sequence[Tensor], metas: Sequence[Meta]
) -> list[Tensor | None]:
    outs = _outs(call, metas)
    places = [place for place, meta in enumerate(outs) if meta.differentiable]
    needs = [tangent is not None for tangent in tangents]
    saved = [pool[place] for place in call.saved]

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        row: list[Tensor | None] = [None] * len(outs)
        for place, cotangent in zip(places, cotangents, strict=True):
            row[place] = cotangent
        return pulled_back(call, row, saved, metas, needs)

    rule = next(call.definition.rules)
    try:
        found = transposed(pull, [outs[place] for place in places], tangents)
    except UsageError:
        raise
    except Exception as error:  # NotLinear, or what the rule raises where autograd runs through it
        why = str(error) if isinstance(error, NotLinear) else f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise complaint(
            f"the backward of {call.definition.name} can't be transposed into a forward-mode rule",
            where=rule.where,
            why=why,
            do=f"give the rule: @{call.definition.name}.jvp above def _(tangents, ...)",
        ) from error
    result: list[Tensor | None] = [None] * len(outs)
    for place, tangent in zip(places, found, strict=True):
        result[place] = tangent
    return result


def _given(
    call: Call, rule: Rule, tangents: Sequence[Tensor | None], pool: Sequence[Tensor], metas: Sequence[Meta]
) -> list[Tensor | None]:
    full = materialized(tangents, metas[: call.count])
    rows = [
        argument.layout.fill(full[argument.start : argument.stop])
        for argument in call.arguments
        if any(meta.differentiable for meta in metas[argument.start : argument.stop])
    ]
    saved = [pool[place] for place in call.saved]
    result = rule.run(rows[0] if len(rows) == 1 else tuple(rows), call.values(rule.names, saved))
    where, outs = rule.where, _outs(call, metas)
    taken: Sequence[Any] | None = call.output.take(result)
    if taken is None:
        raise complaint(
            "the jvp returned another structure than the forward",
            where=where,
            do="return one tangent for each output, in its structure",
        )
    return [_tangent(value, meta, where) for value, meta in zip(taken, outs, strict=True)]


def _tangent(value: Any, meta: Meta, where: str) -> Tensor | None:
    if value is None:
        return meta.zeros() if meta.differentiable else None
    if not isinstance(value, Tensor) or value.shape != meta.shape or value.dtype is not meta.dtype:
        raise complaint(
            f"the jvp returned {told(value)} as the tangent of an output that is "
            f"{str(meta.dtype).removeprefix('torch.')}{list(meta.shape)}",
            where=where,
            why="a tangent has the shape and the dtype of its output",
            do="return it so, or None where it is zero",
        )
    return value if meta.differentiable else None
