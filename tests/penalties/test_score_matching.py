from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from tests.penalties.loops import CASES, points, same_training, tail
from torch import Tensor

from gradwright.derivatives.jacobian import batch_gradient
from gradwright.derivatives.methods.estimators import random_signs
from gradwright.errors import CoupledBatch, UsageError
from gradwright.penalties import score_matching


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("estimator", ["hutchinson", "sliced"])
def test_an_estimate_has_the_exact_value_for_its_mean(estimator: str) -> None:
    net, x = tail(3), points()
    score = net(x)
    exact = score_matching(score, wrt=x, reduction="none")
    many = torch.stack([
        score_matching(score, wrt=x, estimator=estimator, generator=seeded(number), reduction="none")
        for number in range(200)
    ])  # fmt: skip
    assert ((many.mean(0) - exact).abs() < 4 * many.std(0) / 200**0.5 + 1e-12).all()


def test_sliced_is_its_equation_along_its_directions() -> None:
    net, x = tail(3), points()
    score = net(x)
    found = score_matching(score, wrt=x, estimator="sliced", samples=2, generator=seeded(4), reduction="none")
    generator = seeded(4)
    signs = torch.stack([random_signs(x, generator) for _ in range(2)])
    jacobian = one_hot_jacobian(score, x, create_graph=True)
    expected = torch.stack([
        sum((v @ jacobian[b] @ v + (v @ score[b]) ** 2 / 2 for v in signs[:, b]), torch.zeros(())) / 2
        for b in range(5)
    ])  # fmt: skip
    assert same_training(found, expected, list(net.parameters()))


def _without_the_half(score: Tensor, x: Tensor) -> Tensor:
    return score.square().sum(1) + one_hot_jacobian(score, x, create_graph=True).diagonal(dim1=1, dim2=2).sum(1)


def _ones_for_a_trace(score: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(score, x, torch.ones_like(score), create_graph=True)
    return score.square().sum(1) / 2 + gradient.sum(1)


def _trace_off_the_graph(score: Tensor, x: Tensor) -> Tensor:
    return score.square().sum(1) / 2 + one_hot_jacobian(score, x).diagonal(dim1=1, dim2=2).sum(1)


@pytest.mark.parametrize(
    "wrong", [_without_the_half, _ones_for_a_trace, _trace_off_the_graph], ids=lambda w: w.__name__
)
def test_the_loop_rejects_a_score_matching(wrong: Callable[[Tensor, Tensor], Tensor]) -> None:
    net, x = tail(3), points()
    (case,) = (case for case in CASES if case.name == "score_matching")
    assert not same_training(wrong(net(x), x), case.loop(net, x), list(net.parameters()))


def test_one_dimension_needs_no_luck() -> None:
    x = points(5, 1)
    score = x.sin()
    exact = score_matching(score, wrt=x)
    for estimator in ("hutchinson", "sliced"):
        torch.testing.assert_close(score_matching(score, wrt=x, estimator=estimator), exact)


def test_the_score_of_the_samples_has_the_least_loss() -> None:
    x = torch.randn(4000, 2, generator=seeded(), dtype=torch.float64).requires_grad_()
    losses = [score_matching(-scale * x, wrt=x).item() for scale in (0.5, 0.9, 1.0, 1.1, 2.0)]
    assert min(losses) == losses[2]  # standard normal: s(x) = -x
    assert losses[2] == pytest.approx(-1.0, abs=0.05)  # E = -1/2 E |s|^2


def test_images_are_samples_of_all_their_numbers() -> None:
    x = torch.randn(3, 2, 2, generator=seeded(), dtype=torch.float64).requires_grad_()
    score = x.sin()
    flat = score_matching(score, wrt=x, reduction="none")
    expected = score.square().sum((1, 2)) / 2 + x.cos().sum((1, 2))
    torch.testing.assert_close(flat, expected)


def test_samples_that_meet_are_refused() -> None:
    x = points()
    with pytest.raises(CoupledBatch):
        score_matching(x - x.mean(0) * x.sin(), wrt=x)


@pytest.mark.parametrize("estimator", ["hutchinson", "sliced"])
def test_what_leaks_between_samples_has_mean_zero_in_an_estimate(estimator: str) -> None:
    x = points(3)
    score = x.sin() + 0.3 * x.mean(0)
    exact = score.square().sum(1) / 2 + (x.cos() + 0.1).sum(1)
    many = torch.stack([
        score_matching(score, wrt=x, estimator=estimator, generator=seeded(number), reduction="none")
        for number in range(300)
    ])  # fmt: skip
    assert ((many.mean(0) - exact).abs() < 4 * many.std(0) / 300**0.5).all()


def test_a_score_of_another_shape_is_refused() -> None:
    x = points()
    with pytest.raises(UsageError, match=r"score is torch.float64 \[5\], wrt has shape \[5, 3\](.|\n)*batch_gradient"):
        score_matching(x.sum(1), wrt=x)


def test_a_log_density_is_matched_by_its_gradient() -> None:
    net, x = tail(1), points()
    score = batch_gradient(-net(x).squeeze(1), wrt=x, create_graph=True)
    found = score_matching(score, wrt=x, reduction="none")
    gradients = one_hot_jacobian(-net(x), x, create_graph=True).squeeze(1)
    traces = one_hot_jacobian(gradients, x, create_graph=True).diagonal(dim1=1, dim2=2).sum(1)
    assert same_training(found, gradients.square().sum(1) / 2 + traces, list(net.parameters()))


@pytest.mark.parametrize("estimator", ["exact", "sliced"])
def test_a_complex_score_is_refused(estimator: str) -> None:
    z = torch.ones(2, 3, dtype=torch.complex64, requires_grad=True)
    with pytest.raises(UsageError, match="real numbers"):
        score_matching(z * 2, wrt=z, estimator=estimator)


def test_an_unknown_estimator_is_refused() -> None:
    x = points()
    with pytest.raises(UsageError, match="estimator='guess'"):
        score_matching(-x, wrt=x, estimator="guess")
    with pytest.raises(UsageError, match="samples=0"):
        score_matching(-x, wrt=x, estimator="sliced", samples=0)
