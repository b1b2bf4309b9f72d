"""Broadcast shapes become as few rows of columns as memory allows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwright.errors import UsageError
from gradwright.kernels.launch.geometry import dense_strides, geometry_of, is_dense, memory_order
from gradwright.kernels.launch.results import broadcast


def test_what_lies_one_after_the_other_is_one_row() -> None:
    strides = torch.empty(4, 5, 6).stride()
    geometry = geometry_of((4, 5, 6), (0, 1, 2), [strides, strides])
    assert geometry.sizes == (120,) and geometry.strides == ((1,), (1,))
    assert (geometry.rows, geometry.columns) == (1, 120)


def test_permuted_alike_is_one_row() -> None:
    strides = torch.empty(4, 50, 6).permute(2, 0, 1).stride()
    order = memory_order((6, 4, 50), [strides, strides])
    assert order == (1, 2, 0) and geometry_of((6, 4, 50), order, [strides]).sizes == (1200,)


def test_a_broadcast_operand_keeps_its_axis_apart() -> None:
    geometry = geometry_of((7, 40), (0, 1), [(40, 1), (0, 1), (1, 0)])
    assert geometry.sizes == (7, 40) and geometry.strides == ((40, 1), (0, 1), (1, 0))


def test_axes_of_length_one_go() -> None:
    full = (1, 30, 1, 40, 1)
    strides = torch.empty(full).stride()
    assert geometry_of(full, memory_order(full, [strides]), [strides]).sizes == (1200,)


def test_an_operand_that_is_broadcast_does_not_decide_the_order() -> None:
    matrix = torch.empty(40, 30).t().stride()
    assert memory_order((30, 40), [(0, 1), matrix]) == (1, 0)


def test_few_columns_give_way_to_the_longest_axis() -> None:
    geometry = geometry_of((5000, 3), (0, 1), [(3, 1), (0, 1)])
    assert geometry.sizes == (3, 5000) and geometry.strides == ((1, 3), (1, 0))


def test_no_axes_are_one_column() -> None:
    assert geometry_of((), (), [(), ()]).sizes == (1,)


@given(st.permutations(range(4)), st.tuples(*[st.integers(1, 4)] * 4))
@settings(deadline=None)
def test_dense_strides_lie_in_memory_in_their_order(order: list[int], shape: tuple[int, ...]) -> None:
    strides = dense_strides(shape, order)
    made = torch.empty_strided(shape, strides)
    assert is_dense(shape, strides) and made.untyped_storage().nbytes() == 4 * made.numel()
    assert made.permute(order).is_contiguous()


def test_what_is_expanded_sliced_or_overlapping_is_not_dense() -> None:
    for tensor in (torch.empty(3).expand(2, 3), torch.empty(8)[::2], torch.empty(9).unfold(0, 3, 1)):
        assert not is_dense(tensor.shape, tensor.stride())


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=3))
@settings(deadline=None)
def test_shapes_broadcast_as_in_torch(shapes: list[list[int]]) -> None:
    try:
        expected = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        with pytest.raises(UsageError, match="do not broadcast"):
            broadcast(shapes)
    else:
        assert broadcast(shapes) == expected
