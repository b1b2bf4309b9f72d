"""``gw.vjp``, ``gw.jvp`` and ``gw.hvp``: a Jacobian, or a Hessian, times one vector."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.curvature import exact_hvp, gradient_request, require_derivatives
from gradwright.derivatives.graph.engine import hooks_ever, pull
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, read_batch
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request, require_way
from gradwright.derivatives.graph.target import Wrt, read_target
from gradwright.derivatives.hessian import one_value
from gradwright.derivatives.methods.pushed import push_jets, why_not_pushed
from gradwright.derivatives.nodes import rule_of
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.meeting import largest
from gradwright.derivatives.samples.probe import random_cotangent
from gradwright.derivatives.samples.trust import SEED, Trust, by_sample, factors, hook_free, real_only
from gradwright.derivatives.second_order import require_twice
from gradwright.errors import DerivativeError, UsageError

#: Largest relative gap between <c, J t> and <vjp(c), t>, in units of epsilon, that is taken for rounding.
ROUNDING = 1e4


def vjp(y: Output, wrt: Wrt, cotangent: Tensor, create_graph: bool = False) -> Tensor:
    """cotangent . dy / dwrt: one backward along a graph that exists, which stays alive.

    ``y``: a tensor of any shape, or a function of ``wrt``.  ``cotangent``: the shape of ``y``.
    Result: the shape of ``wrt``.
    Nothing is said of samples: a coupled batch is differentiated as it is.
    Complex numbers: autograd's convention, the cotangent's conjugate product (Re <c, J t> = Re <vjp(c), t>).
    Cost: one backward over the way between them.
    Raises: DerivativeError (freed graph, changed in place, no way from y to wrt), NoSecondDerivative, UsageError.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> vjp(x**2, wrt=x, cotangent=torch.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    request = _read(y, wrt, create_graph)
    if create_graph:
        require_twice(request.way)
    with recording(create_graph):
        given = _of_shape("cotangent", cotangent, request.output.shape, "y", request.output.dtype)
        return pull(request.output, request.target, given, create_graph=create_graph)


@without_unreadable_rules
def jvp(y: Output, wrt: Wrt, tangent: Tensor, create_graph: bool = False) -> Tensor:
    """dy / dwrt . tangent: forward along a graph that exists, without running the model again.

    ``y``: a tensor of any shape, or a function of ``wrt``.  ``tangent``: the shape of ``wrt``.  Result: that of ``y``.
    The tangent is pushed through the recorded nodes where all of them are known and no hook stands on the way (if a
    hook was ever registered in this process, one vjp listens for it); otherwise the vjp, which is linear in its
    cotangent, is differentiated with respect to that.
    Nothing is said of samples: a coupled batch is differentiated as it is.
    Complex numbers: y changes by jvp . h for wrt + h tangent with a real h.
    Cost: one forward along the nodes, or two backwards (three where a node is unknown: one to check).
    Raises: DerivativeError (as ``gw.vjp``; also where a backward is not linear, so that no jvp fits it),
    NoSecondDerivative, UsageError.
    Source: Townsend 2017, "A new trick for calculating Jacobian vector products".

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> jvp(x**2, wrt=x, tangent=torch.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    request = _read(y, wrt, create_graph)
    with recording(create_graph):
        given = _of_shape("tangent", tangent, request.target.shape, "wrt", request.target.dtype)
        if why_not_pushed(request.way, 1) is None and hook_free(request):
            return push_jets(request, given.unsqueeze(0)).first.squeeze(0)
        require_derivatives(request)
        return _double_vjp(request, given)


@without_unreadable_rules
def hvp(
    y: Output,
    wrt: Wrt,
    vector: Tensor,
    create_graph: bool = False,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
) -> Tensor:
    """The Hessian of y times a vector, in the shape of ``wrt``.

    ``y``: a scalar; or [B], one value per sample, and then the result holds, for each sample, its own Hessian times its
    own part of ``vector``. A ``wrt`` that all samples share (a parameter) gets the Hessian of y.sum() times ``vector``.
    ``vector``: the shape of ``wrt``.  Real numbers only.
    ``batch``: for y [B], what to do where samples meet: "auto" finds out and raises, "coupled" computes each sample's
    own, "assume_independent" doesn't look.
    Cost: two backwards, the first with a graph; two more where independence is not proved.
    Raises: CoupledBatch, NoSecondDerivative (before anything is computed), DerivativeError, UsageError.
    Source: Pearlmutter 1994, "Fast exact multiplication by the Hessian".

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> hvp(x.prod() ** 2, wrt=x, vector=torch.tensor([1.0, 0.0]))
    tensor([8., 8.])
    """
    y, wrt = evaluated(y, wrt, create_graph)
    if isinstance(y, Tensor) and y.ndim == 0:
        request = _read(y, wrt, create_graph)
    else:
        request = read_request(y, wrt, batch_dim, create_graph)
        one_value(request, "hvp")
    real_only(request, "hvp")
    require_derivatives(request)
    with recording():
        given = _of_shape("vector", vector, request.target.shape, "wrt", request.target.dtype)
        if request.target_axis is None:
            read_batch(batch)
            return _second_vjp(request, torch.ones_like(request.output), given)
        trust = Trust(request, batch)
        return exact_hvp(request, given) if trust.exact else _shared_hvp(trust, given)


def _shared_hvp(trust: Trust, vector: Tensor) -> Tensor:
    """By a backward through a backward that all samples share.  Raises: CoupledBatch."""
    request = trust.request
    with trust.listening():
        made = _second_vjp(request, torch.ones_like(request.output), vector)
    if trust.open:
        _confirm_hvp(trust, vector, made)
    return made


def _confirm_hvp(trust: Trust, vector: Tensor, made: Tensor) -> None:
    """NOTE [Probing second derivatives], for the one tangent at hand: its samples get random factors s."""
    request = trust.request
    cotangent = random_cotangent(request.output)
    scales = factors(request.samples, vector)
    axis = request.target_axis
    assert axis is not None
    scaled = vector * scales.reshape(-1, *[1] * (vector.ndim - axis - 1))

    def seen_from(given: Tensor) -> Tensor:
        return by_sample(request, _second_vjp(request, given, scaled))

    told = (cotangent.to(vector.dtype) * scales)[:, None] * by_sample(request, made)
    trust.confirm(cotangent, seen_from, told, largest(told))


def _second_vjp(request: Request, cotangent: Tensor, vector: Tensor) -> Tensor:
    """The vjp of the gradient of sum(cotangent * y); zero where that is constant."""
    gradient = gradient_request(request, cotangent)
    if gradient is None:
        return torch.zeros_like(vector)
    return pull(gradient.output, request.target, request.batch_first(vector), create_graph=request.create_graph)


def _double_vjp(request: Request, tangent: Tensor) -> Tensor:
    """The vjp of the vjp.  Raises: DerivativeError where a backward of an unknown node turns out not to be linear."""
    output, target = request.output, request.target
    cotangent = random_like(output, SEED + 1).requires_grad_()
    pulled = pull(output, target, cotangent, create_graph=True)
    if not pulled.requires_grad:
        return torch.zeros_like(output)
    made = pull(pulled, read_target(cotangent), tangent, create_graph=request.create_graph)
    if hooks_ever() or any(rule_of(name) is None for name in request.way.names):
        other = random_like(output, SEED)
        there, back = pull(output, target, other).flatten(), made.detach().flatten()
        sides = torch.vdot(other.flatten(), back), torch.vdot(there, tangent.detach().flatten())
        size = float(other.norm() * back.norm() + there.norm() * tangent.detach().norm())
        gap, eps = abs(float(sides[0].real - sides[1].real)), torch.finfo(output.dtype).eps
        if not gap <= min(ROUNDING * eps, 0.1) * size:
            raise DerivativeError(
                f"<c, J t> and <vjp(c), t> differ by {gap:.1e} (of {size:.1e}) for a random c: a backward between y "
                f"{list(output.shape)} and {target.describe()} is not linear in its cotangent (a custom Function, or a "
                "hook, that normalises or clips), so no jvp belongs to it. Take the hook away, or use gw.vjp"
            )
    return made


def _read(y: Output, wrt: Wrt, create_graph: bool) -> Request:
    y, wrt = evaluated(y, wrt, create_graph)
    if not isinstance(y, Tensor):
        raise UsageError(f"y is a {type(y).__name__}: give the tensor whose derivatives are wanted")
    target = read_target(wrt)
    return Request(y, target, None, require_way(y, target), create_graph)


def _of_shape(name: str, given: Tensor, shape: torch.Size, whose: str, dtype: torch.dtype) -> Tensor:
    if not isinstance(given, Tensor) or given.shape != shape:
        told = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise UsageError(f"{name} is {told}; it needs the shape of {whose}, {list(shape)}")
    if given.is_complex() and not dtype.is_complex:
        raise UsageError(f"{name} is {given.dtype}, and {whose} is real ({dtype}): give its real part")
    return given.to(dtype)
