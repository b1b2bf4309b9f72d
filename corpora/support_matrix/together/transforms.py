"""Transforms: of a function of vectors (their number) to values that can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import func
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from ..programs.compiled import whole

X, W = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), torch.tensor([2.0, 0.25, -3.0], dtype=torch.float64)
V = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def inputs(count: int, batch: bool = False) -> tuple[torch.Tensor, ...]:
    given = (X, W)[:count]
    return tuple(torch.stack((x, 2 * x)) for x in given) if batch else given


def total(f: Any) -> Any:
    """A scalar in which no two entries weigh the same."""
    return lambda *given: sum((y.square() * (1 + V[: len(y)] * V[: len(y)])).sum() / 2 + y.sum() for y in f(*given))


def all_of(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def backward(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count))
    return torch.autograd.grad(total(f)(*given), given, allow_unused=True, materialize_grads=True)


def double_backward(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count))
    options: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    first = torch.autograd.grad(total(f)(*given), given, create_graph=True, **options)
    squares: Any = sum((g * g).sum() for g in first)
    return torch.autograd.grad(squares, given, **options)


def third(f: Any, count: int) -> Any:
    def of_first(*given: Any) -> Any:
        return func.grad(total(f))(*given).square().sum()

    return func.grad(lambda *given: func.grad(of_first)(*given).square().sum(), all_of(count))(*inputs(count))


def forward_mode(f: Any, count: int) -> Any:
    with forward_ad.dual_level():
        out = f(*(forward_ad.make_dual(x, V) for x in inputs(count)))
        return [forward_ad.unpack_dual(y).tangent for y in out]


def one_tangent(f: Any, count: int) -> Any:
    with forward_ad.dual_level():
        first, *others = inputs(count)
        out = f(forward_ad.make_dual(first, V), *others)
        return [_or_zeros(forward_ad.unpack_dual(y).tangent, y) for y in out]


def _or_zeros(tangent: Any, y: Any) -> Any:
    return torch.zeros_like(y) if tangent is None else tangent


def jvp(f: Any, count: int) -> Any:
    return func.jvp(f, inputs(count), (V, 3 * V)[:count])


def vjp(f: Any, count: int) -> Any:
    out, pull = func.vjp(f, *inputs(count))  # type: ignore[misc]  # annotated as with has_aux
    return out, pull(tuple(V[: len(y)] for y in out))


def linearized(f: Any, count: int) -> Any:
    return func.linearize(f, *inputs(count))[1](*(V, 3 * V)[:count])


def grad(f: Any, count: int) -> Any:
    return func.grad(total(f), all_of(count))(*inputs(count))


def jacrev(f: Any, count: int) -> Any:
    return func.jacrev(f, all_of(count))(*inputs(count))


def jacfwd(f: Any, count: int) -> Any:
    return func.jacfwd(f, all_of(count))(*inputs(count))


def hessian(f: Any, count: int) -> Any:
    return func.hessian(total(f), all_of(count))(*inputs(count))


def reverse_over_reverse(f: Any, count: int) -> Any:
    return func.jacrev(func.jacrev(total(f), all_of(count)), all_of(count))(*inputs(count))


def forward_over_forward(f: Any, count: int) -> Any:
    return func.jacfwd(func.jacfwd(total(f), all_of(count)), all_of(count))(*inputs(count))


def reverse_over_forward(f: Any, count: int) -> Any:
    return func.jacrev(func.jacfwd(total(f), all_of(count)), all_of(count))(*inputs(count))


def vmap(f: Any, count: int) -> Any:
    return func.vmap(f)(*inputs(count, batch=True))


def vmap_of_vmap(f: Any, count: int) -> Any:
    given = tuple(torch.stack((x, x + 1, 3 * x)) for x in inputs(count, batch=True))
    return func.vmap(func.vmap(f, in_dims=0, out_dims=1), in_dims=1, out_dims=2)(*given)


def some_in_the_batch(f: Any, count: int) -> Any:
    (first, *_), (_, *others) = inputs(count, batch=True), inputs(count)
    return func.vmap(func.grad(total(f), all_of(count)), in_dims=(0, *[None] * len(others)))(first, *others)


def per_sample(f: Any, count: int) -> Any:
    return func.vmap(func.grad(total(f), all_of(count)))(*inputs(count, batch=True))


def per_sample_jacfwd(f: Any, count: int) -> Any:
    return func.vmap(func.jacfwd(f, all_of(count)), in_dims=0)(*inputs(count, batch=True))


def per_sample_hessian(f: Any, count: int) -> Any:
    return func.vmap(func.hessian(total(f), all_of(count)))(*inputs(count, batch=True))


def grad_of_vmap(f: Any, count: int) -> Any:
    batch = inputs(count, batch=True)
    return func.grad(lambda *given: func.vmap(total(f))(*given).square().sum(), all_of(count))(*batch)


def backward_of_vmap(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count, batch=True))
    return torch.autograd.grad(func.vmap(total(f))(*given).sum(), given, allow_unused=True, materialize_grads=True)


def backward_of_jvp(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count))
    tangent = func.jvp(f, given, (V, 3 * V)[:count])[1]
    return torch.autograd.grad(sum(t.sum() for t in tangent), given, allow_unused=True, materialize_grads=True)


def batched_backward(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count))
    (out, *_) = f(*given)
    eye = torch.eye(len(out), dtype=out.dtype)
    return torch.autograd.grad(out, given, eye, is_grads_batched=True, allow_unused=True, materialize_grads=True)


def checkpointed(f: Any, count: int) -> Any:
    given = tuple(x.clone().requires_grad_() for x in inputs(count))
    out = checkpoint(total(f), *given, use_reentrant=False)
    return torch.autograd.grad(out, given, allow_unused=True, materialize_grads=True)


def inference(f: Any, count: int) -> Any:
    with torch.inference_mode():
        return f(*inputs(count))


def old_jacobian(f: Any, count: int) -> Any:
    return torch.autograd.functional.jacobian(f, inputs(count))


def compiled(f: Any, count: int) -> Any:
    return backward(whole(f), count)


def compiled_per_sample(f: Any, count: int) -> Any:
    return whole(func.vmap(func.grad(total(f), all_of(count))))(*inputs(count, batch=True))


def compiled_jacfwd(f: Any, count: int) -> Any:
    return whole(func.jacfwd(f, all_of(count)))(*inputs(count))


# By compiled transform the one that says what is right.
COMPILED = {compiled: backward, compiled_per_sample: per_sample, compiled_jacfwd: jacfwd}
TRANSFORMS = (
    *(backward, double_backward, third, forward_mode, one_tangent, jvp, vjp, linearized, grad, jacrev, jacfwd),
    *(hessian, reverse_over_reverse, forward_over_forward, reverse_over_forward, vmap, vmap_of_vmap),
    *(some_in_the_batch, per_sample, per_sample_jacfwd, per_sample_hessian, grad_of_vmap, backward_of_vmap),
    *(backward_of_jvp, batched_backward, checkpointed, inference, old_jacobian, *COMPILED),
)
