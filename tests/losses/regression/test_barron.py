"""The general robust loss: each of its forms, where they meet, and far out."""

import math

import pytest
import torch
from mpmath import expm1, log1p, mp, mpf

from gradwright.losses.regression.barron import general_robust_loss

_SIZES = [10**exponent for exponent in (-8, -5, -3, -1, -0.2, 0.1, 0.7, 1.6, 2.5, 3.4, 4)]
# Around 2, 0 and the infinities, where the formula of the paper is 0/0 or cancels, and where the forms change.
_SHAPES = [2.0, 2 - 2**-52, 2 + 2**-51, 2 - 1e-7, 2 + 1e-6, 1.9, 3.0, math.nextafter(3, 4), 1.0, math.nextafter(1, 0),
           0.5, 1e-3, 1e-8, math.nextafter(1e-8, 0), 1e-20, 0.0, -1e-30, -1e-8, -1e-5, -1.0, -2.0, -1e6, -1e15, -1e17,
           -1e18, -math.inf]  # fmt: skip


def _true(error: float, alpha: float) -> tuple[float, float]:
    """Equations 8 and 9 of arXiv:1701.03077 to 60 digits: value and slope."""
    with mp.workdps(60):
        u = mpf(error) ** 2
        if math.isinf(alpha):
            return float(-expm1(-u / 2)), float(error * mp.exp(-u / 2))
        if alpha == 2:
            return float(u / 2), error
        b, p = abs(mpf(alpha) - 2), mpf(alpha) / 2
        value = log1p(u / b) if alpha == 0 else b / alpha * expm1(p * log1p(u / b))
        return float(value), float(error * (u / b + 1) ** (p - 1))


def _found(errors: list[float], alpha: float, dtype: torch.dtype) -> tuple[list[float], list[float], list[float]]:
    e = torch.tensor(errors, dtype=dtype, requires_grad=True)
    value = general_robust_loss(e, torch.zeros_like(e), "none", alpha)
    (slope,) = torch.autograd.grad(value.sum(), e)
    return e.tolist(), value.tolist(), slope.tolist()


@pytest.mark.parametrize("alpha", _SHAPES)
def test_value_and_gradient_are_those_of_the_paper_near_every_limit(alpha: float) -> None:
    _assert_as_in_the_paper(alpha, torch.float32)
    _assert_as_in_the_paper(alpha, torch.float64)


def _assert_as_in_the_paper(alpha: float, dtype: torch.dtype) -> None:
    # exp(-u/2) has as many more units of error as its exponent is long: 40 of them here.
    units = 60 if alpha < -2.5 else 25
    for e, value, slope in zip(*_found([*_SIZES, *[-size for size in _SIZES]], alpha, dtype), strict=True):
        true_value, true_slope = _true(e, alpha)
        near = {"rel": units * torch.finfo(dtype).eps, "abs": 1e-33}
        assert value == pytest.approx(true_value, **near)
        assert slope == pytest.approx(true_slope, **near)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 1e-3, 0.0, -1.0, -2.0, -1e6, -math.inf])
def test_where_the_square_overflows_a_loss_that_does_not_is_right(alpha: float) -> None:
    for size in (1e8, 1e10, 1e25, 1e37):
        ((e,), (value,), (slope,)) = _found([size], alpha, torch.float32)
        true_value, true_slope = _true(e, alpha)
        assert value == pytest.approx(true_value, rel=1e-5), size
        assert slope == pytest.approx(true_slope, rel=1e-5, abs=1e-35), size


def test_a_shape_next_to_another_has_nearly_its_loss() -> None:
    for limit in (2.0, 1.0, 3.0, 0.0, 1e-8):
        at, above, below = (_found(_SIZES, alpha, torch.float32)[1:] for alpha in (limit, limit + 1e-9, limit - 1e-9))
        for near in (above, below):
            assert near[0] == pytest.approx(at[0], rel=4e-6)
            assert near[1] == pytest.approx(at[1], rel=4e-6)


@pytest.mark.parametrize("alpha", [3.5, 1e18, math.inf])
def test_shapes_above_2_grow_faster_than_the_square(alpha: float) -> None:
    ((_, value), (_, slope)) = _found([0.0, 2.0], alpha, torch.float64)[1:]
    assert (value, slope) == (
        pytest.approx(1.5 / 3.5 * ((4 / 1.5 + 1) ** 1.75 - 1)), pytest.approx(2 * (4 / 1.5 + 1) ** 0.75)
    ) if alpha == 3.5 else (pytest.approx(math.expm1(2)), pytest.approx(2 * math.exp(2)))  # fmt: skip


def test_the_scale_is_the_unit_of_the_error() -> None:
    e = torch.tensor([-3.0, 0.5, 40.0])
    for alpha in (2.0, 1.5, 0.0, -2.0, -math.inf):
        found = general_robust_loss(e, torch.zeros(3), "none", alpha, 0.5)
        torch.testing.assert_close(found, general_robust_loss(2 * e, torch.zeros(3), "none", alpha))
