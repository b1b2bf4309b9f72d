"""Maxima, arguments of maxima and sorting: by value, with equal elements known to be equal. Read by ``evaluation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import SAME, Arithmetic
from gradwright.doctor.prove.exact.elementwise import Operation
from gradwright.doctor.prove.exact.number import NotExaminedError, Number, Part


def ranked(x: Number, dim: int) -> Part:
    """The values, those that are equal as formulas made equal, so that torch's own choice among ties is taken.

    Raises: NotExaminedError where two values are as good as equal and the formulas are not.
    """
    if x.dim() == 0 or x.shape[dim] < 2:
        return x.value
    values, order = x.value.sort(dim=dim, stable=True)
    residues = x.residues[0].gather(dim, order)
    length = values.shape[dim] - 1
    left, right = values.narrow(dim, 0, length), values.narrow(dim, 1, length)
    near = ((right - left).abs() <= SAME * torch.maximum(left.abs(), right.abs())) & right.isfinite() & left.isfinite()
    same = residues.narrow(dim, 0, length) == residues.narrow(dim, 1, length)
    if (near & ~same).any():
        raise NotExaminedError("it orders numbers of which nobody can say whether they are equal")
    places = torch.arange(length + 1).view([-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())])
    starts = torch.cat([torch.ones_like(near.narrow(dim, 0, 1)), ~near], dim)
    first = torch.where(starts, places, 0).cummax(dim).values
    return torch.empty_like(values).scatter_(dim, order, values.gather(dim, first))


def taken(x: Number, dim: int, index: Part) -> Number:
    return x.map(lambda part: part.gather(dim, index))


def largest(e: Arithmetic, x: Any, dim: int, keepdim: bool = False) -> Number:
    a = e.number(x)
    if a.dim() == 0:
        return a.map(torch.clone)
    found = taken(a, dim, ranked(a, dim).argmax(dim, keepdim=True))
    return found if keepdim else found.map(lambda part: part.squeeze(dim))


def _along(name: str) -> Operation:
    """``max`` and the like, which give values and indices along an axis."""
    function = getattr(torch, name)

    def operation(e: Arithmetic, x: Any, dim: int, keepdim: bool = False) -> tuple[Number, Part]:
        a = e.number(x)
        if a.dim() == 0:
            return a.map(torch.clone), torch.tensor(0)
        index = function(ranked(a, dim), dim, keepdim=True).indices
        found = taken(a, dim, index)
        if keepdim:
            return found, index
        return found.map(lambda part: part.squeeze(dim)), index.squeeze(dim)

    return operation


def _extreme(name: str) -> Operation:
    """``max`` and ``min`` in all their forms: of everything, or along an axis."""
    along = _along(name)

    def operation(e: Arithmetic, x: Any, *rest: Any, **named: Any) -> Any:
        if rest or named:
            return along(e, x, *rest, **named)
        return along(e, e.number(x).map(lambda part: part.reshape(-1)), 0)[0]

    return operation


def _reduced(name: str) -> Operation:
    """``amax`` and ``amin``: along any axes, values only."""
    along = _along(name)

    def operation(e: Arithmetic, x: Any, dim: int | Sequence[int] = (), keepdim: bool = False) -> Number:
        a = e.number(x)
        axes = [dim] if isinstance(dim, int) else list(dim) or list(range(a.dim()))
        for axis in sorted((axis % max(a.dim(), 1) for axis in axes), reverse=True):
            a = along(e, a, axis, keepdim)[0]
        return a

    return operation


def _place(name: str) -> Operation:
    function = getattr(torch, name)

    def operation(e: Arithmetic, x: Any, dim: int | None = None, keepdim: bool = False) -> Part:
        a = e.number(x)
        if dim is None:
            found = function(ranked(a.map(lambda part: part.reshape(-1)), 0))
        else:
            found = function(ranked(a, dim), dim, keepdim)
        assert isinstance(found, torch.Tensor)
        return found

    return operation


def sort(e: Arithmetic, x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> tuple[Number, Part]:
    a = e.number(x)
    index = ranked(a, dim).sort(dim=dim, descending=descending, stable=True).indices
    return taken(a, dim, index), index


def argsort(e: Arithmetic, x: Any, dim: int = -1, descending: bool = False, **ignored: Any) -> Part:
    return sort(e, x, dim, descending)[1]


def topk(
    e: Arithmetic, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Number, Part]:
    a = e.number(x)
    index = ranked(a, dim).topk(k, dim, largest, sorted).indices
    return taken(a, dim, index), index


def _running(name: str) -> Operation:
    function = getattr(torch, name)

    def operation(e: Arithmetic, x: Any, dim: int) -> tuple[Number, Part]:
        a = e.number(x)
        index = function(ranked(a, dim), dim).indices
        return taken(a, dim, index), index

    return operation


def _truth(name: str) -> Operation:
    function = getattr(torch, name)
    return lambda e, x, *rest, **named: function(e.order(x, 0) != 0, *rest, **named)


def kthvalue(e: Arithmetic, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Number, Part]:
    a = e.number(x)
    index = ranked(a, dim).kthvalue(k, dim, True).indices
    found = taken(a, dim, index)
    return (found, index) if keepdim else (found.map(lambda part: part.squeeze(dim)), index.squeeze(dim))


OPERATIONS: dict[str, Operation] = {
    "max": _extreme("max"),
    "min": _extreme("min"),
    "amax": _reduced("max"),
    "amin": _reduced("min"),
    "argmax": _place("argmax"),
    "argmin": _place("argmin"),
    "sort": sort,
    "argsort": argsort,
    "topk": topk,
    "median": _along("median"),
    "kthvalue": kthvalue,
    "cummax": _running("cummax"),
    "cummin": _running("cummin"),
    "any": _truth("any"),
    "all": _truth("all"),
}
