"""Right under functorch's transforms and in forward mode: vmap rules, jvp rules, backwards that don't call the engine.

A backward that calls the autograd engine gives zeros under ``torch.func.vjp``, without a word. What is to be right
there has its Jacobian ready: one more output, not differentiable, and a backward of one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from corpus.specimen import Call, Outputs, Specimen, differentiable, real_only
from corpus.wrapping import Gradients, Wrapping, right_forward, unpacked

MOST_ROWS = 30


def _jacobian(specimen: Specimen, args: Sequence[Tensor]) -> Tensor:
    """All real outputs by all wanted inputs, flat: [rows, columns]."""
    with torch.enable_grad():
        primals = [arg.detach().clone().requires_grad_(index in specimen.wanted) for index, arg in enumerate(args)]
        wanted = [primals[index] for index in specimen.wanted]
        flat = torch.cat([output.reshape(-1) for output in specimen.call(*primals) if differentiable(output)])
        rows = []
        for value in flat:
            found = torch.autograd.grad(value, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
            rows.append(torch.cat([gradient.reshape(-1) for gradient in found]))
    return torch.stack(rows)


def _jacobian_forward(_: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    return (*wrapping.compute(*args), _jacobian(wrapping.specimen, args))


def _jacobian_setup(ctx: Any, inputs: tuple[Tensor, ...], outputs: Outputs) -> None:
    ctx.save_for_backward(outputs[-1])
    ctx.shapes = [arg.shape for arg in inputs]
    ctx.mark_non_differentiable(outputs[-1])


def _jacobian_backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    (jacobian,) = ctx.saved_tensors
    given = [item.reshape(-1) for item in cotangents[:-1] if item is not None and differentiable(item)]
    flat = torch.cat(given) @ jacobian
    gradients: list[Tensor | None] = [None] * len(ctx.shapes)
    start = 0
    for index in wrapping.specimen.wanted:
        shape = ctx.shapes[index]
        gradients[index] = flat[start : start + shape.numel()].reshape(shape)
        start += shape.numel()
    return tuple(gradients)


def bears_jacobian(specimen: Specimen) -> bool:
    """Are all its outputs real, differentiable and few?"""
    args = specimen.fresh()
    outputs = specimen.call(*args)
    if sum(output.numel() for output in outputs) > MOST_ROWS or not all(o.requires_grad for o in outputs):
        return False
    return real_only(specimen)


def with_vmap_rule(wrapping: Wrapping, rule: Any) -> Wrapping:
    """``rule(wrapping)`` makes the staticmethod."""
    return wrapping.but(
        forward=_jacobian_forward,
        backward=_jacobian_backward,
        setup=_jacobian_setup,
        once=True,
        extra=(("vmap", rule),),
    )


def vmap_by_loop(wrapping: Wrapping) -> Any:
    """A right vmap rule: the Function, sample by sample, stacked."""

    function = wrapping.but(extra=()).build()

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        def sample(number: int) -> Outputs:
            chosen = [arg if dim is None else arg.select(dim, number) for arg, dim in zip(args, in_dims, strict=True)]
            result: Any = function.apply(*chosen)
            return result if isinstance(result, tuple) else (result,)

        columns = zip(*(sample(number) for number in range(info.batch_size)), strict=True)
        stacked = tuple(torch.stack(column) for column in columns)
        return unpacked(stacked), (0 if len(stacked) == 1 else tuple(0 for _ in stacked))

    return staticmethod(vmap)


def exact_jvp(call: Call, args: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """J u as the derivative of <Jᵀ g, u> in g. ``None`` for outputs without a derivative."""
    with torch.enable_grad():
        primals = [arg.detach().clone().requires_grad_(u is not None) for arg, u in zip(args, tangents, strict=True)]
        outputs = call(*primals)
        active = [output for output in outputs if output.requires_grad]
        given = [torch.zeros_like(output, requires_grad=True) for output in active]
        wanted = [(primal, u) for primal, u in zip(primals, tangents, strict=True) if u is not None]
        pulled = torch.autograd.grad(active, [x for x, _ in wanted], given, create_graph=True, allow_unused=True)
        total = torch.stack([(g * u).sum() for g, (_, u) in zip(pulled, wanted, strict=True) if g is not None]).sum()
        found = iter(torch.autograd.grad(total, given, allow_unused=True))
    pushed = [next(found) if output.requires_grad else None for output in outputs]
    return tuple(
        torch.zeros_like(o).detach() if u is None and differentiable(o) else u
        for o, u in zip(outputs, pushed, strict=True)
    )


def jvp_rule(factor: float) -> Any:
    """The right one, times ``factor``."""

    def made(wrapping: Wrapping) -> Any:
        def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
            pushed = exact_jvp(wrapping.specimen.call, ctx.primals, tangents)
            scaled = tuple(None if u is None else u * factor for u in pushed)
            return scaled[0] if len(scaled) == 1 else scaled

        return staticmethod(jvp)

    return made


def keeping_primals(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    """For the jvp rule; detached copies, so that no graph is kept."""
    ctx.primals = tuple(arg.detach().clone() for arg in args)
    return right_forward(ctx, wrapping, args)


def bears_jvp(specimen: Specimen) -> bool:
    args = specimen.fresh()
    try:
        exact_jvp(specimen.call, args, [torch.ones_like(arg) if arg.requires_grad else None for arg in args])
    except Exception:  # no second derivative
        return False
    return real_only(specimen)
