"""Drawn tensors have the shape, dtype and range that were asked for, in layouts that really are odd."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradwright.testing import strategies
from gradwright.testing.strategies import LAYOUTS, cotangents, layouts, shapes, tensors

MATRIX = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("way", [way for way in LAYOUTS if way != "expanded"])
@pytest.mark.parametrize(
    "tensor", [MATRIX, MATRIX[0], MATRIX[0, 0], MATRIX > 3, MATRIX.long(), MATRIX + 1j, torch.empty(0, 3)]
)
def test_a_layout_keeps_the_values(way, tensor):
    assert torch.equal(LAYOUTS[way](tensor), tensor)


def test_the_layouts_are_what_their_names_say():
    assert LAYOUTS["transposed"](MATRIX).stride() == (1, 3)
    assert LAYOUTS["offset"](MATRIX).storage_offset() == 3 and LAYOUTS["offset"](MATRIX).is_contiguous()
    assert LAYOUTS["expanded"](MATRIX).stride() == (0, 1)
    assert not LAYOUTS["inside NaN"](MATRIX).is_contiguous()


def test_around_a_poisoned_tensor_everything_is_nan():
    poisoned = LAYOUTS["inside NaN"](MATRIX)
    storage = torch.tensor(poisoned.untyped_storage().tolist(), dtype=torch.uint8).view(torch.float32)
    assert int((~storage.isnan()).sum()) == MATRIX.numel()


@given(tensors(shapes(min_dims=1, max_dims=2, max_side=5), dtype=torch.float32, low=0.5, high=2.0, requires_grad=True))
def test_a_drawn_tensor_is_as_asked_for(tensor):
    assert tensor.ndim in (1, 2) and max(tensor.shape) <= 5
    assert tensor.dtype is torch.float32 and tensor.is_leaf and tensor.requires_grad
    assert bool(((tensor >= 0.5) & (tensor <= 2.0)).all())


@given(st.data(), st.sampled_from([torch.int64, torch.bool, torch.complex128, torch.bfloat16]))
def test_any_dtype_can_be_drawn(data, dtype):
    assert data.draw(tensors((2, 3), dtype=dtype)).dtype is dtype


@given(st.data(), tensors())
def test_a_cotangent_fits_its_output(data, output):
    drawn = data.draw(cotangents(output))
    assert drawn.shape == output.shape and drawn.dtype is output.dtype


@given(st.data())
def test_the_layouts_can_be_chosen(data):
    assert data.draw(layouts(MATRIX, ["transposed"])).stride() == (1, 3)


def test_a_view_of_the_cotangent_is_found_by_drawn_layouts():
    """What the strategies are for: a property that holds of contiguous tensors alone is refuted."""

    @given(tensors((2, 3)))
    def flattens(tensor):
        tensor.view(-1)

    with pytest.raises(RuntimeError, match="view"):
        flattens()


def test_what_is_public_is_listed():
    assert set(strategies.__all__) == {"LAYOUTS", "cotangents", "layouts", "shapes", "tensors"}
