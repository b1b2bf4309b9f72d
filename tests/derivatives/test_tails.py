"""Tails of networks, first and second order, every option: right against one-hot truth, or a clear error."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
import torch
from tests.derivatives.asking import asking
from tests.derivatives.tails import NAMES, Tail, build, latent
from tests.derivatives.truth import one_hot_jacobian
from tests.laws import Laws
from torch import Tensor

import gradwright as gw
from gradwright.derivatives.graph.options import Mode
from gradwright.errors import CoupledBatch, DerivativeError, NoSecondDerivative, UsageError

#: Tails with a step that nothing can be pushed through: somebody's own Function, a buffer that is written into.
ONLY_BACKWARDS = {"custom_function", "custom_function_numpy", "in_place_buffer"}

BY_BACKWARDS: tuple[Mode, ...] = ("auto", "reverse")
MODES: tuple[Mode, ...] = (*BY_BACKWARDS, "forward")
ORDERS = (1, 2)


def _penalty(jacobian: Tensor) -> Tensor:
    return (jacobian.flatten(1).norm(dim=1) - 1).abs().sum()


def _gradients(jacobian: Tensor, tail: Tail) -> list[Tensor]:
    made = torch.autograd.grad(_penalty(jacobian), tail.parameters, allow_unused=True)
    return [torch.zeros_like(p) if one is None else one for p, one in zip(tail.parameters, made, strict=True)]


def _evaluated(name: str) -> tuple[Tail, Tensor, Tensor]:
    tail, z = build(name), latent()
    torch.default_generator.manual_seed(1)  # dropout draws the same mask in every test
    return tail, z, tail.net(z)


@cache  # for all the laws of a tail
def _truth(name: str) -> tuple[Tensor, list[Tensor]]:
    tail, z, y = _evaluated(name)
    if not tail.twice:
        return one_hot_jacobian(y, z), []
    jacobian = one_hot_jacobian(y, z, create_graph=True)
    return jacobian.detach(), _gradients(jacobian, tail)


def _assert_right(name: str, tail: Tail, jacobian: Tensor, order: int) -> None:
    first, second = _truth(name)
    torch.testing.assert_close(jacobian.detach(), first)
    if order == 2:
        for made, truth in zip(_gradients(jacobian, tail), second, strict=True):
            torch.testing.assert_close(made, truth)


laws = Laws[str]()


@laws
def a_tail_is_right_or_an_error_by_default(name: str) -> None:
    for order, mode in product(ORDERS, MODES):
        with asking(order=order, mode=mode):
            tail, z, y = _evaluated(name)
            if order == 2 and not tail.twice:
                with pytest.raises(NoSecondDerivative):
                    gw.batch_jacobian(y, z, mode=mode, create_graph=True)
            elif tail.coupled:
                with pytest.raises((DerivativeError, UsageError)) as caught:
                    gw.batch_jacobian(y, z, mode=mode, create_graph=order == 2)
                assert mode == "forward" or isinstance(caught.value, CoupledBatch)
            elif mode == "forward" and name in ONLY_BACKWARDS:
                with pytest.raises(UsageError, match='mode="forward" is impossible here'):
                    gw.batch_jacobian(y, z, mode=mode, create_graph=order == 2)
            else:
                _assert_right(name, tail, gw.batch_jacobian(y, z, mode=mode, create_graph=order == 2), order)


@laws
def a_coupled_tail_is_exact_when_asked(name: str) -> None:
    for order in ORDERS:
        with asking(order=order):
            tail, z, y = _evaluated(name)
            if order == 2 and not tail.twice:
                with pytest.raises(NoSecondDerivative):
                    gw.batch_jacobian(y, z, batch="coupled", create_graph=True)
            else:
                _assert_right(name, tail, gw.batch_jacobian(y, z, batch="coupled", create_graph=order == 2), order)


@laws.where(lambda name: not build(name).coupled)
def samples_that_are_independent_may_be_assumed_so(name: str) -> None:
    for order, mode in product(ORDERS, BY_BACKWARDS):
        with asking(order=order, mode=mode):
            tail, z, y = _evaluated(name)
            if order == 2 and not tail.twice:
                with pytest.raises(NoSecondDerivative):
                    gw.batch_jacobian(y, z, mode=mode, batch="assume_independent", create_graph=True)
            else:
                made = gw.batch_jacobian(y, z, mode=mode, batch="assume_independent", create_graph=order == 2)
                _assert_right(name, tail, made, order)


@laws
def independence_is_told_from_coupling(name: str) -> None:
    tail, z, y = _evaluated(name)
    found = gw.check_batch_independence(y, z)
    assert bool(found) is not tail.coupled
    assert (found.verdict == "coupled") is tail.coupled


@pytest.mark.parametrize("name", NAMES)
def test_a_tail_keeps_every_law(name: str) -> None:
    laws.hold(name)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("batch_norm_train", "NativeBatchNormBackward0"),
        ("batch_attention", "MmBackward0"),
        ("minibatch_std", "StdBackward0"),
        ("normalising_backward", "NormalisedBackward"),
    ],
)
def test_the_error_names_the_step_where_samples_meet(name: str, step: str) -> None:
    _, z, y = _evaluated(name)
    with pytest.raises(CoupledBatch, match=f"at {step}"):
        gw.batch_jacobian(y, z)
    assert step in gw.check_batch_independence(y, z).where


def test_the_truth_itself_knows_coupling() -> None:
    """Planted: the sum trick on BatchNorm in training is far from one-hot truth, so the comparison can fail."""
    tail, z, y = _evaluated("batch_norm_train")
    wrong = gw.batch_jacobian(y, z, batch="assume_independent")
    with pytest.raises(AssertionError):
        _assert_right("batch_norm_train", tail, wrong, 1)
