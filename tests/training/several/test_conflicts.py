"""Which parameters are shared, how large each loss's gradient is, and whether they pull apart."""

import math

import pytest
import torch

from gradwright.training.several import Reach, conflicts_of

ONE = torch.tensor([1.0, 0.0])


def test_parameters_of_two_losses_are_shared_and_those_of_one_are_its_head() -> None:
    by_loss = {"a": [ONE, ONE, None, None], "b": [ONE, None, ONE, None], "c": [None, None, ONE, None]}
    reach = Reach.of(by_loss)
    assert reach.shared == (0, 2) and reach.heads == {"a": (1,), "b": (), "c": ()}


def test_cosines_are_over_shared_parameters_only() -> None:
    """The heads would make it 0.6 closer to right angles."""
    found = conflicts_of({"a": [ONE, 10 * ONE, None], "b": [-2 * ONE, None, 10 * ONE]}, ["trunk", "head_a", "head_b"])
    assert found.cosines == {("a", "b"): -1.0}
    assert found.norms == pytest.approx({"a": math.sqrt(101), "b": math.sqrt(104)})
    assert found.shared == ("trunk",) and found.heads == {"a": ("head_a",), "b": ("head_b",)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_norms_and_cosines_are_those_of_long_vectors(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    by_loss = {name: [torch.randn(50, 7).to(dtype), torch.randn(11).to(dtype)] for name in "abc"}
    long = {name: torch.cat([part.reshape(-1) for part in parts]).double() for name, parts in by_loss.items()}
    found = conflicts_of(by_loss, ["one", "two"])
    near = 1e-12 if dtype == torch.float64 else 1e-6
    assert found.norms == pytest.approx({name: float(one.norm()) for name, one in long.items()}, rel=near)
    for (a, b), cosine in found.cosines.items():
        assert cosine == pytest.approx(float(torch.cosine_similarity(long[a], long[b], 0)), abs=near)
    assert list(found.cosines) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_what_a_gradient_scaler_multiplied_is_divided_by() -> None:
    found = conflicts_of({"a": [1024 * ONE], "b": [2048 * ONE]}, ["trunk"], scale=1024.0)
    assert found.norms == {"a": 1.0, "b": 2.0} and found.cosines == {("a", "b"): 1.0}


def test_a_gradient_that_is_not_finite_has_no_direction() -> None:
    found = conflicts_of({"a": [ONE * math.nan], "b": [ONE]}, ["trunk"])
    assert math.isnan(found.cosines["a", "b"]) and math.isnan(found.norms["a"]) and found.norms["b"] == 1.0


def test_of_a_gradient_of_zeros_there_is_no_direction() -> None:
    found = conflicts_of({"a": [ONE], "b": [0 * ONE]}, ["trunk"])
    assert math.isnan(found.cosines["a", "b"]) and found.worst is None


def test_where_nothing_is_shared_there_is_no_conflict() -> None:
    found = conflicts_of({"a": [ONE, None], "b": [None, -ONE]}, ["one", "two"])
    assert not found.cosines and not found.shared and found.norms == {"a": 1.0, "b": 1.0}


def test_the_worst_pair_is_the_most_opposed() -> None:
    other = torch.tensor([0.0, 1.0])
    found = conflicts_of({"a": [ONE], "b": [other], "c": [-ONE]}, ["trunk"])
    assert found.worst == (("a", "c"), -1.0)
    assert str(found) == (
        "gradient norms: a 1, b 1, c 1; cosines over 1 shared parameters: a and b +0.00, a and c -1.00, b and c +0.00"
    )
