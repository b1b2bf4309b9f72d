from __future__ import annotations

import pytest
import torch
from tests.penalties.loops import points, tail
from torch import nn

from gradwright.errors import CoupledBatch, UsageError
from gradwright.penalties import jacobian_penalty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_projections_have_the_exact_norm_for_their_mean() -> None:
    net, x = tail(4), points()
    y = net(x)
    exact = jacobian_penalty(y, wrt=x, reduction="none")
    many = torch.stack([
        jacobian_penalty(y, wrt=x, projections=1, generator=seeded(number), reduction="none") for number in range(400)
    ])  # fmt: skip
    error = many.std(0) / 20  # of the mean of 400
    assert ((many.mean(0) - exact).abs() < 4 * error).all()
    assert (error < 0.1 * exact).all()  # so that a forgotten factor K would have shown


def test_one_output_needs_no_luck() -> None:
    net, x = tail(1), points()
    y = net(x)
    torch.testing.assert_close(jacobian_penalty(y, wrt=x, projections=1), jacobian_penalty(y, wrt=x))


def test_every_sample_has_a_direction_of_its_own() -> None:
    x = torch.ones(6, 2, dtype=torch.float64, requires_grad=True)
    y = x * torch.tensor([1.0, 5.0], dtype=torch.float64)
    values = jacobian_penalty(y, wrt=x, projections=1, generator=seeded(), reduction="none")
    assert len(values.unique()) == 6


def test_more_projections_scatter_less() -> None:
    net, x = tail(6), points()
    y = net(x)

    def scatter(projections: int) -> float:
        drawn = [
            jacobian_penalty(y, wrt=x, projections=projections, generator=seeded(number)).item() for number in range(60)
        ]
        return torch.tensor(drawn).std().item()

    assert scatter(16) < 0.6 * scatter(1)


def test_a_generator_repeats_and_spares_the_random_state() -> None:
    net, x = tail(4), points()
    state = torch.get_rng_state()
    one, two = (jacobian_penalty(net(x), wrt=x, projections=2, generator=seeded(5)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_generator_every_call_draws_anew() -> None:
    net, x = tail(4), points()
    torch.manual_seed(0)
    one, two = (jacobian_penalty(net(x), wrt=x, projections=1) for _ in range(2))
    assert not torch.equal(one, two)


def test_the_projected_penalty_trains() -> None:
    net, x = tail(4), points()
    weight = net[0].weight
    exact = torch.autograd.grad(jacobian_penalty(net(x), wrt=x), weight)[0]
    found = torch.autograd.grad(jacobian_penalty(net(x), wrt=x, projections=800, generator=seeded()), weight)[0]
    assert (found - exact).norm() < 0.1 * exact.norm()


def test_projections_of_samples_that_meet_are_refused() -> None:
    x = points()
    y = nn.BatchNorm1d(3).double()(x).sin()
    with pytest.raises(CoupledBatch):
        jacobian_penalty(y, wrt=x, projections=1)


def test_projections_along_another_batch_axis() -> None:
    torch.manual_seed(0)
    z = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    y = z.cumsum(0).sin()
    one = jacobian_penalty(y, wrt=z, projections=2, generator=seeded(), batch_dim=1)
    two = jacobian_penalty(y.T, wrt=z, projections=2, generator=seeded(), batch_dim=(0, 1))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("projections", [None, 1], ids=str)
def test_no_grad_around_it_changes_no_value(projections: int | None) -> None:
    net, x = tail(4), points()
    y = net(x)
    expected = jacobian_penalty(y, wrt=x, projections=projections, generator=seeded())
    with torch.no_grad():
        torch.testing.assert_close(jacobian_penalty(y, wrt=x, projections=projections, generator=seeded()), expected)


@pytest.mark.parametrize("projections", [0, -1], ids=str)
def test_no_projections_are_refused(projections: int) -> None:
    net, x = tail(4), points()
    with pytest.raises(UsageError, match="give 1 or more, or None"):
        jacobian_penalty(net(x), wrt=x, projections=projections)


def test_a_scalar_is_refused() -> None:
    x = points()
    for projections in (None, 1):
        with pytest.raises(UsageError, match=r"scalar|\[B, ...\]"):
            jacobian_penalty(x.sum(), wrt=x, projections=projections)


@pytest.mark.parametrize("projections", [None, 1], ids=str)
def test_a_batch_axis_that_is_none_is_told(projections: int | None) -> None:
    net, x = tail(4), points()
    with pytest.raises(UsageError, match="batch_dim=5 names axis 5 of y"):
        jacobian_penalty(net(x), wrt=x, projections=projections, batch_dim=5)
