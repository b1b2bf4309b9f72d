"""The Function for torch.func, vmap, forward mode, and arguments that are trees or keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.autocast import autocast_of
from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.levels import each_of_its_own
from gradwright.functions.custom_gradient.mutated import require_unchanged, versions_of
from gradwright.functions.custom_gradient.pushed import pushed_forward
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.several import gradients_of
from gradwright.functions.custom_gradient.trees import Layout
from gradwright.ground.torch_versions.dynamo import uncompiled
from gradwright.ground.torch_versions.levels import LEVELS, are_functorch_transforms_active, forward_mode_is_on
from gradwright.ground.torch_versions.tensors import is_view


@uncompiled
def portable_function(definition: Definition) -> type[torch.autograd.Function]:
    """``apply`` takes a Call and the tensors of its inputs, and returns the tensors of its pool behind them."""

    def forward(call: Call, *leaves: Tensor) -> tuple[Tensor, ...]:
        before = versions_of(leaves)
        pool = call.run(leaves)
        after = versions_of(leaves)
        require_unchanged(definition.inputs, leaves, call.leaf_names, before, after, transformed=call.transformed)
        outputs = each_of_its_own(pool[call.count :], call.forward_mode)
        return tuple(_apart(leaves, outputs, call.forward_mode))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
        call: Call = inputs[0]
        pool = [*inputs[1:], *outputs]
        saved = [pool[place] for place in call.saved]
        ctx.save_for_backward(*saved)
        if call.forward_mode:
            ctx.save_for_forward(*saved)
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.metas = [Meta.of(tensor) for tensor in pool]
        ctx.autocast = autocast_of(inputs[1:])

    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *gradients_of(ctx, cotangents, ctx.needs_input_grad[1:])

    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(pushed_forward(ctx.call, tangents, ctx.saved_tensors, ctx.metas))

    return type(
        definition.name,
        (torch.autograd.Function,),
        {
            **definition.named,
            "forward": staticmethod(uncompiled(forward)),
            "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward),
            "jvp": staticmethod(jvp),
            "generate_vmap_rule": True,
        },
    )


@uncompiled
def run(
    definition: Definition, function: type[torch.autograd.Function], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, Layout]:
    """A call of what ``portable_function`` made: its output, and the layout of that."""
    call, leaves = Call.opened(definition, args, kwargs)
    call.transformed = are_functorch_transforms_active()
    if call.transformed:
        LEVELS.require()
    call.forward_mode = forward_mode_is_on()
    outputs = function.apply(call, *leaves)  # type: ignore[no-untyped-call]  # torch has no types here
    return call.output.fill(outputs), call.output


def _apart(leaves: Sequence[Tensor], outputs: Sequence[Tensor], forward_mode: bool) -> list[Tensor]:
    """The outputs as torch wants them: of an input that is returned as it is, it asks for a view; under forward mode it
    takes no output twice, and no view of what was made inside."""
    found: list[Tensor] = []
    for output in outputs:
        if any(output is leaf for leaf in leaves):
            found.append(output.view_as(output))
        elif forward_mode and (is_view(output) or any(output is before for before in found)):
            found.append(output.clone())
        else:
            found.append(output)
    return found
