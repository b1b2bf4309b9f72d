"""A call in its general form: any number of outputs, residuals, trees. One Function's ``forward(ctx, ...)`` and
``backward`` around a Call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.autocast import under
from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.pulled import pulled_back
from gradwright.functions.custom_gradient.recomputed import through_residuals
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.watched import watched
from gradwright.ground.torch_versions.levels import unwrap_if_dead
from gradwright.ground.torch_versions.modes import is_any_autocast_enabled


def forward_of_several(ctx: Any, call: Call, leaves: Sequence[Tensor], result: Any) -> tuple[Any, ...]:
    """Save what is kept; the tensors of the pool behind the inputs, and last the Call."""
    pool = call.close(leaves, result)
    ctx.save_for_backward(*[pool[place] for place in call.saved])
    ctx.set_materialize_grads(False)
    ctx.call = call
    ctx.metas = [Meta.of(tensor) for tensor in pool]
    return (*pool[call.count :], call)


def gradients_of(ctx: Any, cotangents: Sequence[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
    """One gradient per tensor of the inputs. ``cotangents``: of the pool behind them; ``needs``: which want one."""
    call: Call = ctx.call
    given, of_residuals = cotangents[: call.output.count], cotangents[call.output.count :]
    # NOTE [dead wrappers]: what was saved under torch.func.vjp is still wrapped when its level has gone. torch's
    # operations unwrap it; a Function that is applied in C++ does not.
    saved, metas = [unwrap_if_dead(tensor) for tensor in ctx.saved_tensors], ctx.metas
    found: Sequence[Tensor | None] = [None] * call.count
    with under(ctx.autocast) if ctx.autocast or is_any_autocast_enabled() else nullcontext():
        if any(cotangent is not None for cotangent in given):
            cast = bool(ctx.autocast)
            if torch.is_grad_enabled():
                found = watched_pull(call, given, saved, metas, needs, cast)
            else:
                found = pulled_back(call, given, saved, metas, needs, cast=cast)
        if any(cotangent is not None for cotangent in of_residuals):
            further = through_residuals(call, of_residuals, saved, metas)
            found = [b if a is None else a if b is None else a + b for a, b in zip(found, further, strict=True)]
    return found


def watched_pull(
    call: Call,
    cotangents: Sequence[Tensor | None],
    saved: Sequence[Tensor],
    metas: Sequence[Meta],
    needs: Sequence[bool],
    cast: bool,
) -> Sequence[Tensor | None]:
    """``pulled_back`` with a graph, watched."""

    def pull(given: Any, kept: Any) -> Sequence[Tensor | None]:
        return pulled_back(call, given, kept, metas, needs, cast=cast)

    rule = next(call.definition.rules)
    return watched(pull, cotangents, saved, call.definition.name, rule.where)
