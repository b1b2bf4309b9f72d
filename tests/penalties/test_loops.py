"""Every penalty against a loop over its samples and outputs, and the laws that all of them keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives import functions
from tests.derivatives.truth import one_hot_jacobian
from tests.penalties.loops import CASES, Case, points, same_training, tail
from torch import Tensor, nn

from gradwright.errors import CoupledBatch, NoSecondDerivative, UsageError

EVERY = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@EVERY
def test_a_penalty_trains_as_its_loop_does(case: Case) -> None:
    net, x = tail(case.outputs), points()
    found = case.ours(net, x, reduction="none")
    assert same_training(found, case.loop(net, x), list(net.parameters()))


@EVERY
def test_mean_and_sum_are_those_of_the_samples(case: Case) -> None:
    net, x = tail(case.outputs), points()
    values = case.ours(net, x, reduction="none")
    torch.testing.assert_close(case.ours(net, x, reduction="sum"), values.sum())
    torch.testing.assert_close(case.ours(net, x, reduction="mean"), values.mean())


@EVERY
def test_samples_in_another_order_give_values_in_that_order(case: Case) -> None:
    net, order = tail(case.outputs), torch.tensor([3, 0, 4, 2, 1])
    values = case.ours(net, points(), reduction="none")
    shuffled = points().detach()[order].requires_grad_()
    torch.testing.assert_close(case.ours(net, shuffled, reduction="none"), values[order])


@EVERY
def test_a_batch_in_two_parts_is_the_whole_batch(case: Case) -> None:
    net = tail(case.outputs)
    parts = [case.ours(net, points().detach()[rows].requires_grad_(), reduction="none") for rows in ([0, 1], [2, 3, 4])]
    torch.testing.assert_close(torch.cat(parts), case.ours(net, points(), reduction="none"))


@EVERY
def test_an_empty_batch_costs_nothing(case: Case) -> None:
    net, x = tail(case.outputs), points(0)
    assert case.ours(net, x, reduction="none").shape == (0,)
    assert case.ours(net, x, reduction="mean").item() == 0


@EVERY
def test_samples_that_meet_are_never_silent(case: Case) -> None:
    x = points()
    meeting = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, case.outputs), nn.Tanh()).double()
    with pytest.raises(CoupledBatch):
        case.ours(meeting, x)


class Gated(nn.Module):
    """The samples meet behind a gate that is zero now: values are right without a look, derivatives are not."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.net, self.gate = net, nn.Parameter(torch.zeros((), dtype=torch.float64))

    def __getitem__(self, part: slice) -> Gated:
        inner = Gated(self.net[part])
        inner.gate = self.gate
        return inner

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + self.gate * x.sin().mean()


@EVERY
def test_a_gate_that_is_zero_now_makes_no_wrong_derivative(case: Case) -> None:
    net, x = Gated(tail(case.outputs)), points()
    try:
        found = case.ours(net, x, reduction="none")
    except CoupledBatch:
        return
    assert same_training(found, case.loop(net, x), list(net.parameters()))


@EVERY
def test_coupled_samples_are_exact_on_demand(case: Case) -> None:
    x = points(3)
    torch.manual_seed(0)
    meeting = nn.Sequential(nn.Linear(3, case.outputs), nn.BatchNorm1d(case.outputs), nn.Softplus()).double()
    found = case.ours(meeting, x, reduction="none", batch="coupled")
    assert same_training(found, case.loop(meeting, x), list(meeting.parameters()))


class Once(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functions.Once.apply(x))


@EVERY
def test_a_step_without_second_derivative_is_found_before_anything_is_computed(case: Case) -> None:
    net, x = Once(*tail(case.outputs)), points()
    with pytest.raises(NoSecondDerivative, match="once_differentiable"):
        case.ours(net, x)


@EVERY
def test_an_unknown_reduction_is_refused(case: Case) -> None:
    with pytest.raises(UsageError, match=r"reduction='median'.*mean"):
        case.ours(tail(case.outputs), points(), reduction="median")


@EVERY
def test_half_precision_is_summed_in_float32(case: Case) -> None:
    net, x = tail(case.outputs).float(), points().detach().float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.ours(net, x, reduction="none")
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, case.loop(net, x), rtol=0.1, atol=0.1)


@EVERY
def test_the_graph_and_the_random_numbers_are_left_as_they_were(case: Case) -> None:
    net, x = tail(case.outputs), points()
    y = net(x)
    state = torch.get_rng_state()
    case.ours(net, x)
    if case.name != "gradient_penalty":  # which draws its points by torch's random numbers
        assert torch.equal(torch.get_rng_state(), state)
    y.sum().backward()
    assert x.grad is not None


def _norm_over_the_wrong_axis(y: Tensor, x: Tensor) -> Tensor:
    return (one_hot_jacobian(y, x, create_graph=True).norm(dim=0) - 1).abs().sum(dim=0)[: len(x)]


def _without_the_root(y: Tensor, x: Tensor) -> Tensor:
    return (one_hot_jacobian(y, x, create_graph=True).square().sum((1, 2)) - 1).abs()


def _derivative_detached(y: Tensor, x: Tensor) -> Tensor:
    return (one_hot_jacobian(y, x, create_graph=True).detach().flatten(1).norm(dim=1) - 1).abs()


def _norms_detached_but_on_a_graph(y: Tensor, x: Tensor) -> Tensor:
    return (one_hot_jacobian(y, x).flatten(1).norm(dim=1) - 1).abs() + 0 * y.sum()


def _mean_for_each(y: Tensor, x: Tensor) -> Tensor:
    values = (one_hot_jacobian(y, x, create_graph=True).flatten(1).norm(dim=1) - 1).abs()
    return values / len(values)


def _one_output_forgotten(y: Tensor, x: Tensor) -> Tensor:
    return (one_hot_jacobian(y[:, :1], x, create_graph=True).flatten(1).norm(dim=1) - 1).abs()


def _ones_mistaken_for_a_jacobian(y: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    return (gradient.norm(dim=1) - 1).abs()


FAULTS = [
    _ones_mistaken_for_a_jacobian,
    _norm_over_the_wrong_axis,
    _without_the_root,
    _derivative_detached,
    _norms_detached_but_on_a_graph,
    _mean_for_each,
    _one_output_forgotten,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_the_loop_rejects_a_penalty_with(fault: Callable[[Tensor, Tensor], Tensor]) -> None:
    net, x = tail(2), points()
    assert not same_training(fault(net(x), x), CASES[0].loop(net, x), list(net.parameters()))
