"""Variants of a specimen, and its right Functions in several styles: some look suspicious, none is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from corpus.specimen import Outputs, Specimen, differentiable
from corpus.transforms import bears_jacobian, bears_jvp, jvp_rule, keeping_primals, vmap_by_loop, with_vmap_rule
from corpus.wrapping import Gradients, Wrapping, mark_integers, right_forward


def tiny(specimen: Specimen) -> Specimen:
    """Its outputs a millionth as large: below gradcheck's absolute tolerance."""
    inner = specimen.call

    def call(*args: Tensor) -> Outputs:
        return tuple(output * 1e-6 if differentiable(output) else output for output in inner(*args))

    return replace(specimen, call=call, variant="tiny")


def paired(specimen: Specimen) -> Specimen:
    """One more output: the sine of the first differentiable one."""
    inner = specimen.call

    def call(*args: Tensor) -> Outputs:
        outputs = inner(*args)
        first = next(output for output in outputs if differentiable(output))
        return (*outputs, first.sin())

    return replace(specimen, call=call, variant="paired")


def counted(specimen: Specimen) -> Specimen:
    """One more output, of integers, which has no gradient."""
    inner = specimen.call

    def call(*args: Tensor) -> Outputs:
        outputs = inner(*args)
        first = next(output for output in outputs if differentiable(output))
        return (*outputs, (first.detach().abs() > 1).long())

    return replace(specimen, call=call, variant="counted")


def _in_place(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    """The result is written into the first input, which is declared."""
    saved = tuple(arg.clone() for arg in args)
    ctx.save_for_backward(*saved)
    outputs = wrapping.compute(*saved)
    args[0].copy_(outputs[0])
    ctx.mark_dirty(args[0])
    mark_integers(ctx, outputs)
    return (args[0], *outputs[1:])


def _without_zeros(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    ctx.set_materialize_grads(False)
    return right_forward(ctx, wrapping, args)


def _needed_or_not(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    wanted = wrapping.specimen.wanted
    return wrapping.vjp(ctx.saved_tensors, cotangents, [index in wanted for index in range(len(ctx.saved_tensors))])


def _can_be_in_place(specimen: Specimen) -> bool:
    with torch.no_grad():
        outputs = specimen.call(*specimen.fresh())
    first = specimen.args[0]
    return first.requires_grad and outputs[0].shape == first.shape and outputs[0].dtype == first.dtype


def right_ones(specimen: Specimen) -> dict[str, Wrapping]:
    """Right Functions of this specimen by style."""
    transparent, opaque = Wrapping(specimen, opaque=False), Wrapping(specimen, opaque=True)
    found = {
        "transparent": transparent,
        "opaque": opaque,
        "opaque, once_differentiable": opaque.but(once=True),
        "transparent, scaled to 1e-6": transparent.but(specimen=tiny(specimen)),
        "opaque, two outputs, gradients not materialized": opaque.but(
            specimen=paired(specimen), forward=_without_zeros
        ),
        "transparent, an integer output": transparent.but(specimen=counted(specimen)),
    }
    if len(specimen.wanted) > 1:
        found["transparent, gradients needed or not"] = transparent.but(backward=_needed_or_not)
    if bears_jacobian(specimen):
        found["transparent, setup_context"] = with_vmap_rule(transparent, vmap_by_loop).but(extra=())
        found["opaque, setup_context with a vmap rule"] = with_vmap_rule(opaque, vmap_by_loop)
    if bears_jvp(specimen):
        found["opaque, with a jvp rule"] = opaque.but(forward=keeping_primals, extra=(("jvp", jvp_rule(1.0)),))
    if _can_be_in_place(specimen):
        found["transparent, in place and declared"] = transparent.but(forward=_in_place, once=True)  # it saves clones
    return found
