"""Clipping: by value, by norm, of what explodes and of what is not finite."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.flow.clip import ClipGradient, clip_gradient


def clipped(cotangent: Tensor, **options: object) -> Tensor:
    x = torch.zeros_like(cotangent).requires_grad_()
    (found,) = torch.autograd.grad(clip_gradient(x, **options), x, cotangent)  # type: ignore[arg-type]
    return found


def test_a_short_cotangent_is_left_alone_bit_for_bit() -> None:
    cotangent = torch.tensor([0.1, -0.2, 1e-30])
    assert torch.equal(clipped(cotangent, norm=1.0), cotangent)
    assert torch.equal(clipped(cotangent, value=1.0), cotangent)
    assert torch.equal(clipped(torch.zeros(3), norm=1.0), torch.zeros(3))


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (0, 1, 2)], ids=str)
def test_the_norm_is_taken_over_the_axes_that_are_named(dim: object) -> None:
    cotangent = 50 * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    found = clipped(cotangent, norm=2.0, dim=dim)
    lengths = torch.linalg.vector_norm(found, dim=dim)  # type: ignore[arg-type]
    torch.testing.assert_close(lengths, torch.full_like(lengths, 2.0))
    ratio = found / cotangent
    assert bool((ratio > 0).all())
    per_slice = torch.linalg.vector_norm(cotangent, dim=dim, keepdim=True)  # type: ignore[arg-type]
    torch.testing.assert_close(ratio, (2.0 / per_slice).expand_as(ratio))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float32, 3e38),
        (torch.float16, 6e4),
        (torch.bfloat16, 3e38),
        (torch.float32, 1e-42),
        (torch.float64, 1e308),
    ],
    ids=["float32", "float16", "bfloat16", "subnormal", "float64"],
)
def test_a_square_that_overflows_does_not_clip_to_zero(dtype: torch.dtype, size: float) -> None:
    cotangent = torch.full((100,), size, dtype=dtype)
    norm = 0.5 * 10 * size if size < 1 else 1.0
    found = clipped(cotangent, norm=norm).double()
    assert float(found.norm()) == pytest.approx(norm, rel=1e-2)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan], ids=str)
def test_what_is_not_finite_is_not_hidden(bad: float) -> None:
    cotangent = torch.tensor([bad, 5.0])
    torch.testing.assert_close(clipped(cotangent, norm=1.0), cotangent, equal_nan=True)
    by_value = clipped(cotangent, value=1.0)
    assert math.isnan(by_value[0]) if math.isnan(bad) else float(by_value[0]) == math.copysign(1.0, bad)


def test_a_complex_cotangent_keeps_its_phase() -> None:
    cotangent = torch.tensor([3j, 4 + 0j])
    torch.testing.assert_close(clipped(cotangent, norm=1.0), torch.tensor([0.6j, 0.8 + 0j]))


def test_under_vmap_the_norm_is_that_of_one_sample() -> None:
    x, cotangent = torch.zeros(3, 4), torch.tensor([[1.0], [2.0], [3.0]]).expand(3, 4)
    each = torch.func.vmap(lambda x, c: torch.func.vjp(lambda x: clip_gradient(x, norm=1.0), x)[1](c)[0])
    torch.testing.assert_close(each(x, cotangent), torch.full((3, 4), 0.5))


def test_numbers_and_empty_tensors_are_clipped_too() -> None:
    assert float(clipped(torch.tensor(-7.0), norm=2.0)) == -2.0
    for shape, dim in (((0,), None), ((0, 3), 1), ((3, 0), 0)):
        assert clipped(torch.zeros(shape), norm=1.0, dim=dim).shape == shape


@pytest.mark.parametrize("options", [{"norm": 1.0}, {"norm": 1.0, "dim": -1}, {"value": 0.7}], ids=str)
def test_the_second_derivative_is_that_of_the_clipping(options: dict[str, object]) -> None:
    x = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    for factor in (0.05, 1.0, 20.0):
        cotangent = factor * torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

        def gradient(cotangent: Tensor) -> Tensor:
            y = clip_gradient(x, **options)  # type: ignore[arg-type]
            return torch.autograd.grad(y, x, cotangent, create_graph=True)[0]

        assert torch.autograd.gradcheck(gradient, cotangent.requires_grad_(), eps=1e-7)


@pytest.mark.parametrize(
    "options",
    [{}, {"value": 1.0, "norm": 1.0}, {"value": -1.0}, {"norm": 0.0}, {"norm": math.nan}, {"value": 1.0, "dim": 0}],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="give a positive"):
        clip_gradient(torch.ones(2), **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a positive"):
        ClipGradient(**options)  # type: ignore[arg-type]
