"""The Function that Dynamo traces: it takes none with a ``jvp``, and no further methods of ``ctx``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.autocast import Autocast, autocast_of
from gradwright.functions.custom_gradient.pulled import pulled_back
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.rules import Definition

if TYPE_CHECKING:
    from gradwright.functions.custom_gradient.call import Call

T = TypeVar("T")


def compiled_function(definition: Definition) -> type[torch.autograd.Function]:
    """``apply`` takes a Call that was run and the tensors of its pool, and returns those of its output."""

    # Where nothing requires a gradient, Dynamo counts the parameters to find out whether there is a ctx: only a
    # signature of one is never mistaken.
    def forward(*handed: Any) -> tuple[Tensor, ...]:
        ctx, call, *pool = handed
        ctx.save_for_backward(*[pool[place] for place in call.saved])
        ctx.call = call
        ctx.metas = [Meta.of(tensor) for tensor in pool]
        ctx.autocast = autocast_of(pool[: call.count])
        return tuple(output.view_as(output) for output in pool[call.count : call.count + call.output.count])

    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        call: Call = ctx.call
        needs = ctx.needs_input_grad[1 : 1 + call.count]
        saved, metas, autocast = ctx.saved_tensors, ctx.metas, ctx.autocast
        found = _under(autocast, lambda: pulled_back(call, cotangents, saved, metas, needs, cast=bool(autocast)))
        return None, *found, *[None] * (call.size - call.count)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(definition.name, (torch.autograd.Function,), methods)


def _under(autocast: Autocast, run: Callable[[], T]) -> T:
    """Autocast as it stood, in the one form that Dynamo traces."""
    if not autocast:
        return run()
    (device, enabled, dtype), *left = autocast
    with torch.autocast(device, dtype=dtype, enabled=enabled):
        return _under(tuple(left), run)


def each_once(leaves: Sequence[Tensor]) -> list[Tensor]:
    """The same tensors, none of them twice: Dynamo takes no Function of one tensor in two places."""
    found: list[Tensor] = []
    for leaf in leaves:
        found.append(leaf.view_as(leaf) if any(leaf is before for before in found) else leaf)
    return found
