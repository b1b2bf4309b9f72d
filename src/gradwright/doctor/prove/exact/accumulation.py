"""What is written or added at places that the values of an index say. ``OPERATIONS`` is read by ``evaluation``."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.elementwise import Operation
from gradwright.doctor.prove.exact.number import NotExaminedError, Number, Part


def _parts(e: Arithmetic, x: Number, function: Any, *operands: Number) -> Number:
    value = function(x.value, *(operand.value for operand in operands))
    return e.reduced(value, lambda m, r, *rest: function(r, *rest), x, *operands)


def index_add(e: Arithmetic, x: Number, dim: int, index: Part, source: Any, alpha: Any = 1) -> Number:
    given = e.number(source) if alpha == 1 else e.multiply(source, alpha)
    return _parts(e, x, lambda a, b: a.index_add(dim, index, b), given)


def scatter_add(e: Arithmetic, x: Number, dim: int, index: Part, source: Any) -> Number:
    return _parts(e, x, lambda a, b: a.scatter_add(dim, index, b), e.number(source))


def index_put(
    e: Arithmetic, x: Number, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Number:
    places = tuple(slice(None) if index is None else index for index in indices)

    def put(a: Part, b: Part) -> Part:
        result = a.clone()
        if accumulate:
            torch.ops.aten.index_put_(result, indices, b, True)
        else:
            result[places] = b
        return result

    return _parts(e, x, put, e.number(values))


def scatter_reduce(
    e: Arithmetic, x: Number, dim: int, index: Part, source: Any, reduce: str, include_self: bool = True
) -> Number:
    if reduce != "sum" or not include_self:
        raise NotExaminedError(f"scatter_reduce with {reduce} is not evaluated exactly")
    return scatter_add(e, x, dim, index, source)


def scatter(e: Arithmetic, x: Number, dim: int, index: torch.Tensor, source: Any, reduce: str | None = None) -> Number:
    if reduce is not None:
        return scatter_reduce(e, x, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])
    given = e.number(source)
    if given.dim() == 0:
        given = given.map(lambda part: part.expand(index.shape))
    parts = [a.scatter(dim, index, b) for a, b in zip(x.parts, given.parts, strict=True)]
    return Number(parts[0], tuple(parts[1:]))


def put(e: Arithmetic, x: Number, index: Part, source: Any, accumulate: bool = False) -> Number:
    return _parts(e, x, lambda a, b: a.put(index, b, accumulate), e.number(source))


def bincount(e: Arithmetic, index: Part, weights: Any = None, minlength: int = 0) -> Number:
    length = max(minlength, int(index.max()) + 1 if index.numel() else 0)
    zeros = e.number(torch.zeros(length, dtype=torch.float64))
    return index_add(e, zeros, 0, index.to(torch.int64), weights)


def unfold_backward(e: Arithmetic, x: Number, sizes: list[int], dim: int, size: int, step: int) -> Number:
    axis = dim % len(sizes)
    index = torch.arange(sizes[axis]).unfold(0, size, step).reshape(-1)
    flat = x.map(lambda part: part.movedim(-1, axis + 1).flatten(axis, axis + 1))
    zeros = e.number(torch.zeros(sizes, dtype=torch.float64))
    return index_add(e, zeros, axis, index, flat)


def embedding_backward(e: Arithmetic, x: Number, index: Part, count: int, padding: int, by_frequency: bool) -> Number:
    if by_frequency:
        raise NotExaminedError("an embedding scaled by frequency is not evaluated exactly")
    zeros = e.number(torch.zeros(count, x.shape[-1], dtype=torch.float64))
    keep = (index != padding).reshape(-1)
    rows = x.map(lambda part: part.reshape(-1, part.shape[-1])[keep])
    return index_add(e, zeros, 0, index.reshape(-1)[keep], rows)


def embedding(e: Arithmetic, weight: Number, index: Part, *ignored: Any) -> Number:
    return weight.map(lambda part: part[index])


OPERATIONS: dict[str, Operation] = {
    "index_add": index_add,
    "scatter_add": scatter_add,
    "index_put": index_put,
    "_index_put_impl": index_put,
    "_unsafe_index_put": index_put,
    "scatter_reduce": scatter_reduce,
    "put": put,
    "scatter": scatter,
    "bincount": bincount,
    "unfold_backward": unfold_backward,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
}
