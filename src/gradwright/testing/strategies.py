"""Strategies for hypothesis: tensors of odd shapes in odd layouts, which is where gradients break.

The values of a draw shrink as hypothesis shrinks them; its layout shrinks towards "contiguous".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

__all__ = ["LAYOUTS", "cotangents", "layouts", "shapes", "tensors"]


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous()


def _transposed(tensor: Tensor) -> Tensor:
    """The axes lie in memory in the opposite order."""
    axes = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(axes).contiguous().permute(axes)


def _inside_nan(tensor: Tensor) -> Tensor:
    """Every second entry of a larger storage, NaN (or the largest integer) all around: who reads beside, shows it."""
    room = torch.full([2 * size + 2 for size in tensor.shape] or [3], _poison(tensor.dtype), dtype=tensor.dtype)
    window = room[tuple(slice(1, 1 + 2 * size, 2) for size in tensor.shape)] if tensor.ndim else room[1]
    return window.copy_(tensor)


def _offset(tensor: Tensor) -> Tensor:
    """Dense, but not at the start of its storage."""
    room = torch.full((tensor.numel() + 3,), _poison(tensor.dtype), dtype=tensor.dtype)
    return room[3:].view(tensor.shape).copy_(tensor)


def _expanded(tensor: Tensor) -> Tensor:
    """Stride 0 along the first axis longer than one: its entries are all those of the first."""
    axis = next((axis for axis, size in enumerate(tensor.shape) if size > 1), None)
    return tensor if axis is None else tensor.narrow(axis, 0, 1).contiguous().expand(tensor.shape)


def _poison(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return True
    return math.nan if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "offset": _offset,
    "inside NaN": _inside_nan,
    "expanded": _expanded,
}


def shapes(min_dims: int = 0, max_dims: int = 3, min_side: int = 1, max_side: int = 4) -> st.SearchStrategy[Any]:
    """Tuples of sizes. ``min_side=0`` allows empty tensors."""
    return st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims).map(tuple)


def layouts(tensor: Tensor, among: Sequence[str] = tuple(LAYOUTS)) -> st.SearchStrategy[Tensor]:
    """The values of ``tensor``, laid out in memory in one of the ways ``among`` (see ``LAYOUTS``).

    "expanded" is the one that changes values: a tensor with stride 0 repeats them.

    >>> from hypothesis import given
    >>> @given(layouts(torch.ones(2, 3), ["transposed"]))
    ... def test_columns_lie_together(x):
    ...     assert x.stride() == (1, 2)
    >>> test_columns_lie_together()
    """
    return st.sampled_from(list(among)).map(lambda way: LAYOUTS[way](tensor))


@st.composite
def tensors(
    draw: st.DrawFn,
    shape: Sequence[int] | st.SearchStrategy[Any] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    low: float = -3.0,
    high: float = 3.0,
    among: Sequence[str] = tuple(LAYOUTS),
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of random shape (at most 3 axes of at most 4) and layout, with entries in [``low``, ``high``].

    ``shape``: a shape, or a strategy for one; ``among``: names of layouts (see ``LAYOUTS``); ``requires_grad``: it is
    a leaf that asks for a gradient. Dtypes: any; of a complex one both parts lie in the range. Cost: one drawn
    number per entry.

    >>> from hypothesis import given
    >>> @given(tensors(low=0.1))
    ... def test_log_undoes_exp(x):
    ...     assert torch.allclose(x.log().exp(), x)
    >>> test_log_undoes_exp()
    """
    sizes = tuple(
        draw(shapes() if shape is None else shape if isinstance(shape, st.SearchStrategy) else st.just(shape))
    )
    count = math.prod(sizes)
    if dtype is torch.bool:
        entries: st.SearchStrategy[Any] = st.booleans()
    elif dtype.is_complex:
        part = st.floats(low, high)
        entries = st.builds(complex, part, part)
    elif dtype.is_floating_point:
        entries = st.floats(low, high)
    else:
        entries = st.integers(math.ceil(low), math.floor(high))
    values = draw(st.lists(entries, min_size=count, max_size=count))
    laid = draw(layouts(torch.tensor(values, dtype=dtype).reshape(sizes), among))
    return laid.detach().requires_grad_(requires_grad)


def cotangents(output: Tensor, among: Sequence[str] = tuple(LAYOUTS)) -> st.SearchStrategy[Tensor]:
    """A cotangent for ``output``: its shape and dtype, entries of both signs, zeros among them, in any layout."""
    return tensors(output.shape, dtype=output.dtype, among=among).map(lambda tensor: tensor.to(output.device))
