"""What holds of losses whatever the numbers, sizes, masks and cuts are: drawn by hypothesis, on the kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import Laws
from torch import Tensor

import gradwright as gw
from gradwright import losses

MANY = settings(max_examples=25, deadline=None, derandomize=True, database=None)

# Of each: the loss, and how a target is made of numbers from 0 to 1.
AS_IT_IS: Callable[[Tensor], Tensor] = lambda unit: 4 * unit - 2  # noqa: E731 - a row of the table
ROUNDED: Callable[[Tensor], Tensor] = lambda unit: unit.round()  # noqa: E731
OF_ELEMENTS = {
    "huber": (losses.huber_loss, AS_IT_IS),
    "pseudo-Huber": (losses.pseudo_huber_loss, AS_IT_IS),
    "smooth L1": (losses.smooth_l1_loss, AS_IT_IS),
    "log-cosh": (losses.log_cosh_loss, AS_IT_IS),
    "quantile": (losses.quantile_loss, AS_IT_IS),
    "general robust": (losses.general_robust_loss, AS_IT_IS),
    "BCE": (losses.binary_cross_entropy_with_logits, ROUNDED),
    "focal": (losses.binary_focal_loss, ROUNDED),
    "focal, gamma 0.5": (partial(losses.binary_focal_loss, gamma=0.5), ROUNDED),
}
OF_ROWS = {
    "cross entropy": losses.cross_entropy,
    "cross entropy, smoothed": partial(losses.cross_entropy, label_smoothing=0.2),
    "multi-class focal": losses.focal_loss,
}
OVERLAPS = {
    "dice": losses.dice_loss,
    "jaccard": losses.jaccard_loss,
    "tversky": partial(losses.tversky_loss, alpha=0.3, beta=0.7),
    "focal tversky": losses.focal_tversky_loss,
    "lovasz": losses.lovasz_hinge_loss,
}
PLACES = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**31 - 1), st.integers(1, 40))


def _graded(loss: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    value = loss(x)
    return value.detach(), torch.autograd.grad(value, x)[0]


def _near(found: Tensor, known: Tensor, scale: float = 1.0) -> None:
    torch.testing.assert_close(found, known, rtol=4e-6, atol=1e-6 * max(scale, 1e-6))


def _drawn(seed: int, rows: int, columns: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(rows, columns, generator=generator)
    return x, torch.rand(rows, columns, generator=generator), torch.rand(rows, columns, generator=generator) < 0.6


of_elements, of_overlaps = Laws[str](), Laws[str]()


@pytest.mark.parametrize("name", OF_ELEMENTS)
def test_a_loss_of_elements_keeps_every_law(name: str) -> None:
    of_elements.hold(name)


@pytest.mark.parametrize("name", OVERLAPS)
def test_a_loss_of_overlap_keeps_every_law(name: str) -> None:
    of_overlaps.hold(name)


@of_elements
def any_cut_of_a_batch_sums_up_to_the_batch(name: str) -> None:
    loss, target_of = OF_ELEMENTS[name]

    @MANY
    @given(PLACES)
    def holds(places: tuple[int, int, int, int]) -> None:
        first, second, seed, rows = places
        x, unit, mask = _drawn(seed, rows)
        t, count = target_of(unit), max(int(mask.sum()), 1)
        value, slope = _graded(lambda y: loss(y, t, mask=mask), x)
        cuts = sorted((0, min(first, rows), min(second, rows), rows))
        pieces = [
            _graded(lambda y, part=slice(a, b): loss(y, t[part], mask=mask[part], num_items=count), x[a:b])
            for a, b in itertools.pairwise(cuts)
        ]
        _near(torch.stack([each for each, _ in pieces]).sum(), value, value.abs().item())
        _near(torch.cat([each for _, each in pieces]), slope, slope.abs().max().item())

    holds()


@pytest.mark.parametrize("name", OF_ROWS)
def test_any_cut_of_rows_sums_up_to_all(name: str) -> None:
    loss = OF_ROWS[name]

    @MANY
    @given(PLACES)
    def holds(places: tuple[int, int, int, int]) -> None:
        first, second, seed, rows = places
        x, unit, mask = _drawn(seed, rows, 5)
        t = (unit[:, 0] * 5).long().masked_fill(~mask[:, 0], -100)
        count = max(int(mask[:, 0].sum()), 1)
        value, slope = _graded(lambda y: loss(y, t, ignore_index=-100), x)
        cuts = sorted((0, min(first, rows), min(second, rows), rows))
        pieces = [
            _graded(lambda y, part=slice(a, b): loss(y, t[part], ignore_index=-100, num_items=count), x[a:b])
            for a, b in itertools.pairwise(cuts)
        ]
        _near(torch.stack([each for each, _ in pieces]).sum(), value, value.abs().item())
        _near(torch.cat([each for _, each in pieces]), slope, slope.abs().max().item())

    holds()


@of_elements
def what_is_masked_out_has_no_part_whatever_it_holds(name: str) -> None:
    loss, target_of = OF_ELEMENTS[name]

    @MANY
    @given(PLACES)
    def holds(garbage: float, places: tuple[int, int, int, int]) -> None:
        *_, seed, rows = places
        x, unit, mask = _drawn(seed, rows)
        t = target_of(unit)
        value, slope = _graded(lambda y: loss(y, t, mask=mask), x)
        spoilt = torch.where(mask, t, garbage)
        found, its_slope = _graded(lambda y: loss(y, spoilt, mask=mask), torch.where(mask, x, garbage))
        assert torch.equal(found, value)
        assert torch.equal(its_slope, slope)
        assert not its_slope[~mask].any()

    for garbage in (math.nan, math.inf, -7.5):
        holds(garbage)


@of_elements
def at_any_size_of_number_it_is_finite_and_not_negative(name: str) -> None:
    loss, target_of = OF_ELEMENTS[name]
    sizes = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=12)

    @MANY
    @given(sizes, st.integers(0, 1000))
    def holds(numbers: list[float], seed: int) -> None:
        x = torch.tensor(numbers)
        t = target_of(torch.rand(len(numbers), generator=torch.Generator().manual_seed(seed)))
        value, slope = _graded(lambda y: loss(y, t, reduction="none").sum(), x)
        assert math.isfinite(value.item()) and value.item() >= 0
        assert slope.isfinite().all()

    holds()


@of_overlaps
def it_is_from_0_to_1_and_knows_no_order(name: str) -> None:
    loss = OVERLAPS[name]

    @MANY
    @given(st.integers(0, 2**31 - 1), st.integers(1, 60))
    def holds(seed: int, pixels: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        x = 3 * torch.randn(1, 1, pixels, generator=generator)
        t = (torch.rand(1, 1, pixels, generator=generator) < 0.4).float()
        shuffled = torch.randperm(pixels, generator=generator)
        value, slope = _graded(lambda y: loss(y, t), x)
        found, its_slope = _graded(lambda y: loss(y, t[..., shuffled]), x[..., shuffled])
        assert value.item() >= -1e-6 and (name == "lovasz" or value.item() <= 1 + 1e-6)
        _near(found, value)
        _near(its_slope, slope[..., shuffled], slope.abs().max().item())

    holds()


@of_overlaps.where(lambda name: name != "lovasz")
def a_ratio_of_sums_is_the_same_of_a_batch_and_of_it_twice(name: str) -> None:
    loss = OVERLAPS[name]

    @MANY
    @given(st.integers(0, 2**31 - 1), st.integers(1, 60))
    def holds(seed: int, pixels: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        x = 3 * torch.randn(1, 1, pixels, generator=generator)
        t = (torch.rand(1, 1, pixels, generator=generator) < 0.4).float()
        value, slope = _graded(lambda y: loss(y, t), x)
        twice, both = _graded(lambda y: loss(y, torch.cat([t, t])), torch.cat([x, x]))
        _near(twice, value)
        _near(both[:1] + both[1:], slope, slope.abs().max().item())

    holds()


@MANY
@given(st.integers(0, 2**31 - 1), st.integers(1, 50), st.integers(2, 5))
def test_of_certain_probabilities_the_lovasz_extension_is_the_jaccard_loss(seed: int, pixels: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    said = torch.randint(0, count, (1, pixels), generator=generator)
    target = torch.randint(0, count, (1, pixels), generator=generator)
    sure = torch.nn.functional.one_hot(said, count).movedim(-1, 1).float()
    truth = torch.nn.functional.one_hot(target, count).movedim(-1, 1).float()
    both, either = (sure * truth).sum((0, 2)), ((sure + truth) > 0).sum((0, 2))
    there = truth.sum((0, 2)) > 0
    known = (1 - both / either.clamp_min(1))[there].mean()
    found = losses.lovasz_softmax_loss(sure, target, from_logits=False)
    _near(found, known)


@MANY
@given(st.integers(0, 2**31 - 1), st.integers(1, 30), st.floats(-50, 50, width=32))
def test_cross_entropy_knows_no_common_shift_of_logits(seed: int, rows: int, shift: float) -> None:
    x, unit, _ = _drawn(seed, rows, 6)
    t = (unit[:, 0] * 6).long()
    value, slope = _graded(lambda y: losses.cross_entropy(y, t), x)
    found, its_slope = _graded(lambda y: losses.cross_entropy(y, t), x + shift)
    torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(its_slope, slope, rtol=1e-4, atol=1e-5)
    _near(slope.sum(1), torch.zeros(rows))


def test_a_property_can_fail() -> None:
    """The same cut of a mean that is divided by its own count: what accumulation naively does."""
    x, unit, mask = _drawn(0, 20)
    whole = gw.losses.huber_loss(x, unit, mask=mask)
    naive = (
        gw.losses.huber_loss(x[:4], unit[:4], mask=mask[:4]) + gw.losses.huber_loss(x[4:], unit[4:], mask=mask[4:])
    ) / 2
    assert abs(naive - whole) > 1e-3
