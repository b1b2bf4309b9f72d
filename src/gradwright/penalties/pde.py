"""``partials``: the partial derivatives of a field by their names, for the residual of a differential equation.

A residual such as Burgers', u_t + u u_x - nu u_xx (Raissi, Perdikaris & Karniadakis 2019, "Physics-informed neural
networks", Journal of Computational Physics 378), is written as

    d = partials(u, wrt=xt, names="xt", of=("x", "t", "xx"))
    residual = d["t"] + u * d["x"] - nu * d["xx"]

and that of a diffusion, u_t - D (u_xx + u_yy), with of=("t", "xx+yy"). How they share their work stands in fields.py:
NOTE [Derivatives that share], NOTE [Sums of second derivatives].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.captured import Captured
from gradwright.derivatives.graph.engine import told
from gradwright.derivatives.graph.function_form import evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.recording import recording, refuse_inference
from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.samples.trust import real_only
from gradwright.derivatives.second_order import require_twice
from gradwright.errors import UsageError
from gradwright.penalties.fields import Fields

#: A derivative as the caller names it: "xx", or ("x1", "x1").
Name: TypeAlias = str | tuple[str, ...]

#: For each name: its terms, and the coordinates of each term.
Wanted: TypeAlias = dict[Name, list[tuple[str, ...]]]


def partials(
    u: Tensor | Callable[..., Tensor],
    wrt: Wrt | Sequence[Wrt],
    names: str | Sequence[str],
    of: Iterable[Name],
    batch: Batch = "auto",
) -> dict[Name, Tensor]:
    """The partial derivatives of a field at N points: {name: tensor of the shape of ``u``}, all differentiable.

    ``u``: [N] or [N, *K], of a graph that exists, or a function of the coordinates.
    ``wrt``: the coordinates, as one tensor [N, C] with a column each, or as C tensors [N] or [N, 1].
    ``names``: of the C coordinates: "xt", or ("x1", "x2").
    ``of``: which derivatives: "xx" is d2u/dx2, "xt" d2u/dxdt; tuples, ("x1", "x1"), for names of several letters; of
    any order; "" is ``u`` itself; "xx+yy" is a sum of derivatives.  They are the keys of the result.
    A derivative that vanishes everywhere is 0: u_xx of a network of ReLUs, which therefore solves no equation of second
    order.
    Raises: CoupledBatch where the field at one point depends on another point, as with BatchNorm (looked for once,
    at ``u``, where the graph proves there is none, and at each derivative where it can't; ``batch`` says what to do);
    NoSecondDerivative, DerivativeError; UsageError for names and shapes that don't fit.
    Cost: one differentiable backward per field that is differentiated, and per component; a sum of second derivatives,
    one forward along the graph per term, for all components.

    >>> import torch
    >>> xt = torch.tensor([[2.0, 3.0]], requires_grad=True)
    >>> u = xt[:, 0] ** 3 * xt[:, 1]
    >>> d = partials(u, wrt=xt, names="xt", of=("x", "t", "xx", "xt"))
    >>> {name: value.tolist() for name, value in d.items()}
    {'x': [36.0], 't': [8.0], 'xx': [36.0], 'xt': [12.0]}
    """
    labels, wanted = _read_names(names, of)
    field, points = _evaluated(u, wrt, len(labels))
    requests = [read_request(field, point, (0, 0), True) for point in points]
    for request in requests:
        real_only(request, "penalties.partials")
        require_twice(request.way)
    fields = Fields(requests, field, points, _columns(requests, len(labels)), batch)
    places = {
        name: tuple(tuple(sorted(labels.index(letter) for letter in letters)) for letters in terms)
        for name, terms in wanted.items()
    }
    single = {terms[0] for terms in places.values() if len(terms) == 1}
    plain = torch.autocast(field.device.type, enabled=False)
    with recording(), plain, told(field, requests[0].target):
        for orders in sorted(single, key=_pure_ones_first):
            fields.field(orders)
        return {name: fields.sum_of(terms) for name, terms in places.items()}


def _pure_ones_first(orders: tuple[int, ...]) -> tuple[int, int]:
    """What u_xx needs, u_xt may have for nothing."""
    return len(orders), len(set(orders))


def _read_names(names: str | Sequence[str], of: Iterable[Name]) -> tuple[list[str], Wanted]:
    """The coordinates' names, and the letters of each derivative.  Raises: UsageError."""
    labels = list(names)
    if isinstance(of, str):
        raise UsageError(f'of={of!r}: give a sequence of derivatives, as of=("x", "t", "xx")')
    if not labels or len(set(labels)) != len(labels):
        raise UsageError(f"names={names!r}: give every coordinate a name of its own")
    wanted = {
        name: [tuple(term.strip()) for term in name.split("+")] if isinstance(name, str) else [name] for name in of
    }
    for name, terms in wanted.items():
        unknown = [letter for letters in terms for letter in letters if letter not in labels]
        if unknown:
            raise UsageError(
                f"of: {name!r} names the coordinate {unknown[0]!r}; names={names!r} has {', '.join(labels)}. "
                'Where names have several letters a derivative is a tuple: ("x1", "x1")'
            )
    return labels, wanted


def _evaluated(u: Tensor | Callable[..., Tensor], wrt: Wrt | Sequence[Wrt], count: int) -> tuple[Tensor, list[Wrt]]:
    """The field, and the points it is differentiated at: one tensor of columns, or one per coordinate."""
    if isinstance(wrt, Tensor | GradientEdge | Captured):
        field, point = evaluated(u, wrt, create_graph=True)
        return field, [point]
    points = list(wrt)
    if len(points) != count:
        raise UsageError(f"wrt has {len(points)} coordinates, names has {count}: give one name each")
    if not isinstance(u, Tensor):
        raise UsageError(
            "u is no tensor, and wrt several: call it, u = net(x, t), with x and t that require gradients, and give "
            "the result; or give one tensor of columns"
        )
    refuse_inference(True)
    return u, points


def _columns(requests: list[Request], count: int) -> list[tuple[int, int]]:
    """For each coordinate: which point holds it, and in which column.  Raises: UsageError."""
    if len(requests) == 1 and requests[0].columns == (count,):
        return [(0, column) for column in range(count)]
    if len(requests) == count and all(math.prod(request.columns) == 1 for request in requests):
        return [(number, 0) for number in range(count)]
    shapes = ", ".join(str(list(request.target.shape)) for request in requests)
    raise UsageError(
        f"wrt has shape {shapes}, names has {count} coordinates: give one tensor [N, {count}] with a column for each, "
        f"or {count} tensors [N] or [N, 1]"
    )
