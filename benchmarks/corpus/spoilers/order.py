"""Right in first order, wrong in second; right alone, wrong under a transform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from corpus.admission import inner, signed_cotangents
from corpus.measuring import apart, differs_under, has_second_derivative, second_order
from corpus.specimen import differentiable
from corpus.spoilers.base import CONTRACT, Spoiler, of_backward
from corpus.transforms import bears_jacobian, bears_jvp, jvp_rule, keeping_primals, vmap_by_loop, with_vmap_rule
from corpus.wrapping import Gradients, Wrapping, right_setup

_second = differs_under(second_order)


def _saved_taken_for_constants(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    args = [arg.detach() for arg in ctx.saved_tensors]
    return wrapping.vjp(args, cotangents, ctx.needs_input_grad)


def _out_of_the_graph(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    """Computed on ``.data``, and not declared once_differentiable."""
    with torch.no_grad():
        given = [None if item is None else item.data for item in cotangents]
        return wrapping.vjp([arg.data for arg in ctx.saved_tensors], given, ctx.needs_input_grad)


class _Scaled(torch.autograd.Function):
    """The identity, whose gradient is three times too large: a backward's own helper with a wrong backward."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return 3.0 * cotangent


def _helper_wrong(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    apply: Any = _Scaled.apply
    given = [None if item is None else apply(item) for item in cotangents]
    return wrapping.vjp(ctx.saved_tensors, given, ctx.needs_input_grad)


# --- vmap ------------------------------------------------------------------------------------------------------------


def _batched_wrongly(wrapping: Wrapping) -> Any:
    """Every sample of the batch gets the first one's result."""
    right = vmap_by_loop(wrapping).__func__

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        found, dims = right(info, in_dims, *args)
        if isinstance(found, tuple):
            return tuple(item[:1].expand_as(item) for item in found), dims
        return found[:1].expand_as(found), dims

    return staticmethod(vmap)


def _batch_axis_taken_for_zero(wrapping: Wrapping) -> Any:
    right = vmap_by_loop(wrapping).__func__

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return right(info, tuple(None if dim is None else 0 for dim in in_dims), *args)

    return staticmethod(vmap)


def _vmap(rule: Any) -> Any:
    return lambda right: with_vmap_rule(right, rule) if bears_jacobian(right.specimen) else None


def _vmap_differs(right: Wrapping, spoiled: Wrapping) -> bool:
    """Over a batch in the first axis, then in the last."""
    sound = with_vmap_rule(right, vmap_by_loop)
    args = [arg.detach() for arg in right.specimen.fresh()]
    return any(_batches_differ(sound, spoiled, args, axis) for axis in (0, -1))


def _batches_differ(sound: Wrapping, spoiled: Wrapping, args: list[Tensor], axis: int) -> bool:
    batch = [torch.stack([arg, arg * 1.5 if arg.is_floating_point() else arg], dim=axis) for arg in args]
    try:
        truth = torch.func.vmap(sound.build().apply, in_dims=axis)(*batch)
    except Exception:  # vmap does not bear this operator's outputs
        return False
    try:
        found = torch.func.vmap(spoiled.build().apply, in_dims=axis)(*batch)
    except Exception:  # the axis taken for another has no room for the batch
        return True
    one, other = (item if isinstance(item, tuple) else (item,) for item in (truth, found))
    return any(
        a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(one, other, strict=True)
    )


# --- torch.func.vjp --------------------------------------------------------------------------------------------------


def _engine_within(right: Wrapping) -> Wrapping:
    """Written for functorch, but its backward calls ``torch.autograd.grad``, which gives zeros there, silently."""
    return right.but(setup=right_setup)


def _functional_differs(right: Wrapping, spoiled: Wrapping) -> bool:
    args, wanted = right.specimen.fresh(), right.specimen.wanted
    plain = right.specimen.call(*args)
    cotangents = signed_cotangents(plain, 3)
    total = inner(cotangents, plain)
    truth = torch.autograd.grad(total, [args[index] for index in wanted], allow_unused=True)
    apply: Any = spoiled.build().apply

    def of_wanted(*values: Tensor) -> tuple[Tensor, ...]:
        filled = [arg.detach() for arg in args]
        for index, value in zip(wanted, values, strict=True):
            filled[index] = value
        result = apply(*filled)
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(output for output in outputs if differentiable(output))

    try:
        found = torch.func.vjp(of_wanted, *(args[index].detach() for index in wanted))[1](tuple(cotangents))
    except Exception:  # loud, and then it is none of this spoiler's
        return False
    return apart(list(truth), [item.detach() for item in found], 1e-9)


# --- forward mode ----------------------------------------------------------------------------------------------------


def _jvp_doubled(right: Wrapping) -> Wrapping | None:
    if not bears_jvp(right.specimen):
        return None
    return right.but(forward=keeping_primals, extra=(("jvp", jvp_rule(2.0)),))


_dual: Any = forward_ad.make_dual  # torch has no types here
_undual: Any = forward_ad.unpack_dual


def _pushed(wrapping: Wrapping, function: Any) -> Iterator[list[Tensor | None]]:
    args = wrapping.specimen.fresh()
    with forward_ad.dual_level():
        duals = [_dual(arg.detach(), torch.ones_like(arg)) if arg.requires_grad else arg for arg in args]
        result = function.apply(*duals)
        outputs = result if isinstance(result, tuple) else (result,)
        yield [_undual(output).tangent for output in outputs]


def _jvp_differs(right: Wrapping, spoiled: Wrapping) -> bool:
    sound = right.but(forward=keeping_primals, extra=(("jvp", jvp_rule(1.0)),))
    return differs_under(_pushed)(sound, spoiled)


SPOILERS: list[Spoiler] = [
    *(
        of_backward(name, "second order", backward, kind=CONTRACT, differs=_second, applies=has_second_derivative)
        for name, backward in (
            ("saved inputs taken for constants", _saved_taken_for_constants),
            ("backward out of the graph", _out_of_the_graph),
            ("helper of the backward has a wrong backward", _helper_wrong),
        )
    ),
    Spoiler("vmap rule mixes the batch", CONTRACT, ("transform",), _vmap(_batched_wrongly), _vmap_differs),
    Spoiler("vmap rule takes axis 0", CONTRACT, ("transform",), _vmap(_batch_axis_taken_for_zero), _vmap_differs),
    Spoiler("zeros under torch.func.vjp", CONTRACT, ("transform",), _engine_within, _functional_differs),
    Spoiler("jvp rule twice too large", CONTRACT, ("transform", "constant factor"), _jvp_doubled, _jvp_differs),
]
