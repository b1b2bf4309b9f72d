"""Layouts keep the values, differ in strides, and lie in storage that is NaN all around."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradwright.checking.layouts import (
    CHANNELS_LAST,
    CONTIGUOUS,
    EVERY_OTHER,
    EXPANDED,
    EXPANDED_ALONG_FIRST,
    EXPANDED_ALONG_LAST,
    SLICED,
    TRANSPOSED,
    constant_along,
    handed_in,
)
from gradwright.checking.problem import pose

LAYOUTS = (
    TRANSPOSED, SLICED, EVERY_OTHER, CHANNELS_LAST, EXPANDED, EXPANDED_ALONG_FIRST, EXPANDED_ALONG_LAST, CONTIGUOUS,
)  # fmt: skip
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def values(shape, dtype):
    return torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape).to(dtype)


@given(SHAPES, st.sampled_from(LAYOUTS), st.sampled_from([torch.float64, torch.complex64, torch.bfloat16]))
def test_a_placed_tensor_has_the_values_and_other_strides_in_storage_of_nan(shape, layout, dtype):
    tensor = values(shape, dtype)
    if not layout.fits(tensor):
        return
    if layout.shared:
        tensor = constant_along(layout, tensor)
    placed = layout.place(tensor)
    assert torch.equal(placed, tensor)
    assert (placed.stride(), placed.storage_offset()) != (tensor.stride(), tensor.storage_offset())
    assert not placed._is_view()
    everything = torch.empty(0, dtype=dtype).set_(placed.untyped_storage())
    distinct = len({int(e) for e in _elements(placed)})
    assert int(everything.isnan().sum()) == everything.numel() - distinct


def _elements(tensor):
    """Where in storage each element lies."""
    at = torch.full((), tensor.storage_offset())
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        at = at + (torch.arange(size) * stride).reshape([-1 if a == axis else 1 for a in range(tensor.dim())])
    return at.flatten()


@pytest.mark.parametrize(
    ("layout", "strides", "offset"),
    [
        (TRANSPOSED, (1, 3), 0),
        (SLICED, (7, 1), 2),
        (EVERY_OTHER, (8, 2), 2),
        (EXPANDED, (0, 0), 2),
        (EXPANDED_ALONG_FIRST, (0, 1), 2),
        (EXPANDED_ALONG_LAST, (1, 0), 2),
    ],
)
def test_the_strides_of_a_matrix(layout, strides, offset):
    placed = layout.place(constant_along(layout, values((3, 4), torch.float64)) if layout.shared else torch.ones(3, 4))
    assert (placed.stride(), placed.storage_offset()) == (strides, offset)


def test_channels_last_is_what_torch_calls_so():
    assert CHANNELS_LAST.place(torch.ones(2, 3, 4, 5)).is_contiguous(memory_format=torch.channels_last)
    assert not CHANNELS_LAST.fits(torch.ones(3, 4))


def test_a_layout_fits_where_it_is_something_new():
    assert not CONTIGUOUS.fits(torch.ones(3, 4))
    assert CONTIGUOUS.fits(torch.ones(4, 3).t())
    assert not TRANSPOSED.fits(torch.ones(4, 3).t())
    assert not TRANSPOSED.fits(torch.ones(5))
    assert SLICED.fits(torch.ones(()))
    assert not any(layout.fits(torch.ones(0, 3)) for layout in LAYOUTS)
    assert not any(layout.fits(value) for layout in LAYOUTS for value in (None, 3.0, torch.ones(3, 4).to_sparse()))


def test_inputs_are_handed_in_a_layout_inside_a_graph():
    x, order = torch.ones(3, 4, dtype=torch.float64), torch.tensor([[0, 1]])
    trial = pose(lambda x, order, flag: (x * x).sum(), (x, order, True)).trial
    handed = handed_in(trial, TRANSPOSED)
    assert handed.args[0].stride() == (1, 3)
    assert handed.args[1].stride() == order.stride()  # indices stay as they are
    (gradient,) = torch.autograd.grad((handed.args[0] ** 2).sum(), handed.targets[0])
    assert torch.equal(gradient, 2 * x)
    assert handed_in(trial, CHANNELS_LAST) is None
    assert handed_in(trial, TRANSPOSED, only=1) is None
