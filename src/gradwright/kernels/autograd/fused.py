"""The one differentiable primitive: ``fused``.

NOTE [eager fast path]: for a plain call the C++ ``apply`` is called directly; torch's own binds arguments and unwraps
them in Python, which is dear for a small call. What it does for tensors of a torch.func level that is over is done
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.apply import quick_apply
from gradwright.ground.torch_versions.dynamo import uncompiled_throughout
from gradwright.ground.torch_versions.levels import (
    LEVELS,
    are_functorch_transforms_active,
    forward_mode_is_on,
    is_legacy_batchedtensor,
    is_transformed,
    primal,
    set_forward_grad_enabled,
    unwrap_if_dead,
)
from gradwright.kernels.autograd.cotangents import back_operands, keep, kept
from gradwright.kernels.autograd.fusion import Fusion


@uncompiled_throughout
def fused(fusion: Fusion, operands: Sequence[Any]) -> tuple[Tensor, ...]:
    """The results of a launch, differentiable to any order; under torch.func and forward mode too.

    Operands: those of the fusion, then its factors. Results: one new tensor for each of its outputs, with a graph where
    one is recorded and an operand requires a gradient.  Cost: one launch; its backward is one launch too.
    """
    if is_transformed():
        if are_functorch_transforms_active():
            LEVELS.require()
        return _Transformed.apply(fusion, *operands)  # type: ignore[no-untyped-call,no-any-return]
    alive, needs_graph = looked_at(operands)
    return _apply(fusion, *alive) if needs_graph else fusion.run(alive)


def looked_at(operands: Sequence[Any]) -> tuple[list[Any], bool]:
    """The operands without wrappers of torch.func levels that are over, and whether a graph is to be recorded."""
    alive = []
    needs_graph = False
    for operand in operands:
        if isinstance(operand, Tensor):
            operand = unwrap_if_dead(operand)
            needs_graph = needs_graph or operand.requires_grad
        alive.append(operand)
    return alive, needs_graph and torch.is_grad_enabled()


@uncompiled_throughout
def pulled_back(
    fusion: Fusion, operands: Sequence[Any], cotangents: Sequence[Tensor | None], wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients, one for each operand (of the fusion, and each factor); ``None`` for one that is not wanted."""
    arrived = tuple([cotangent is not None for cotangent in cotangents])
    if True not in arrived:
        return [None] * len(operands)
    back = fusion.back(arrived, wanted[: fusion.count])
    given = back_operands(fusion, operands, cotangents)
    found = iter(back.run_plainly(given, _LEGACY) if _are_legacy(cotangents, True) else fused(back, given))
    return [next(found) if is_wanted else None for is_wanted in wanted]


_LEGACY = "the derivatives are batched by torch's older vmap"


def _are_legacy(given: Sequence[Tensor | None], needs_graph: bool) -> bool:
    """Do cotangents or tangents come from torch's older vmap (of torch.autograd), which no Function knows of?"""
    if not any(tensor is not None and is_legacy_batchedtensor(tensor) for tensor in given):
        return False
    if needs_graph and torch.is_grad_enabled():
        raise UsageError(
            "a batch of derivatives of an elementwise formula would have no graph\n"
            "  where  is_grads_batched=True or vectorize=True, together with create_graph=True\n"
            "  why    torch's older vmap, behind these, runs no Function\n"
            "  do     use torch.func: vmap, vjp, jacrev, jacfwd"
        )
    return True


class _Fused(torch.autograd.Function):
    """The plain eager call: a combined forward, which is cheaper than one with ``setup_context``."""

    @staticmethod
    @uncompiled_throughout
    def forward(ctx: Any, fusion: Fusion, *operands: Any) -> tuple[Tensor, ...]:
        keep(ctx, fusion, operands)
        ctx.set_materialize_grads(False)
        return fusion.run(operands)

    @staticmethod
    @uncompiled_throughout
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *pulled_back(ctx.fusion, kept(ctx), cotangents, ctx.needs_input_grad[1:])


_apply = quick_apply(_Fused)


class _Transformed(torch.autograd.Function):
    """The call under torch.func and forward mode."""

    @staticmethod
    @uncompiled_throughout
    def forward(fusion: Fusion, *operands: Any) -> tuple[Tensor, ...]:
        return fusion.run(operands)

    @staticmethod
    @uncompiled_throughout
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        tensors = keep(ctx, inputs[0], inputs[1:])
        ctx.set_materialize_grads(False)
        if forward_mode_is_on():
            ctx.save_for_forward(*tensors)

    @staticmethod
    @uncompiled_throughout
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *pulled_back(ctx.fusion, kept(ctx), cotangents, ctx.needs_input_grad[1:])

    @staticmethod
    @uncompiled_throughout
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        # NOTE [forward over forward]: torch runs a jvp with forward mode off, so that an outer level sees constants:
        # jacfwd(jacfwd(f)) of any Function is silently zero (torch 2.13). It is turned on again here, and the tangents
        # of this level are taken off what is computed with.
        with set_forward_grad_enabled(True):
            fusion: Fusion = ctx.fusion
            operands = [primal(value) if isinstance(value, Tensor) else value for value in kept(ctx)]
            given = tuple([tangent is not None for tangent in tangents[: fusion.count]])
            arriving = [tangent for tangent in tangents if tangent is not None]
            forward = fusion.forward(given)
            pushed = [*operands[: fusion.count], *arriving, *operands[fusion.count :]]
            needs_graph = any(isinstance(operand, Tensor) and operand.requires_grad for operand in pushed)
            return (
                forward.run_plainly(pushed, _LEGACY) if _are_legacy(arriving, needs_graph) else fused(forward, pushed)
            )

    @staticmethod
    @uncompiled_throughout
    def vmap(info: Any, in_dims: tuple[int | None, ...], fusion: Fusion, *operands: Any) -> tuple[Any, int]:
        axes = in_dims[1 : fusion.count + 1]
        batched = fusion.batched(info.batch_size, tuple([axis is not None for axis in axes]))
        lined_up = [fusion.lined_up(operand, axis) for operand, axis in zip(operands, axes, strict=False)]
        return fused(batched, [*lined_up, *operands[fusion.count :]]), 0
