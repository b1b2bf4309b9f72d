"""Samples that meet are never overlooked: exact gradients, or an error that says where and what to do."""

import pytest
import torch
from tests.derivatives.per_sample.judge import (
    TIGHT,
    Case,
    drawn,
    ids,
    largest_error,
    loop_truth,
    per_sample_loss,
    second_gradients,
    weight,
)
from torch import Tensor, nn
from torch.autograd import Function

from gradwright.derivatives.per_sample import per_sample_gradients
from gradwright.errors import CoupledBatch


class Sine(Function):
    """Keeps samples apart; nobody knows."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        return cotangent * ctx.saved_tensors[0].cos()


class ThroughNumpy(Function):
    """Keeps samples apart, and can't be run under vmap."""

    @staticmethod
    def forward(ctx, x, w):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        x, w = ctx.saved_tensors
        return cotangent @ w, torch.from_numpy(cotangent.numpy().T @ x.detach().numpy())


class Normalised(Function):
    """A backward that is not linear."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        return cotangent / (0.01 + cotangent.norm())


class Clipped(Function):
    """A backward that is not linear, sample by sample."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        return cotangent.clamp(-0.01, 0.01)


class Rolled(Function):
    """The backward hands each sample its neighbour's cotangent."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        return cotangent.roll(1, 0)


class SmallLeak(Function):
    """A billionth of the mean, beside the cotangent."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[no-untyped-def]
        return cotangent + 1e-9 * cotangent.mean(0)


def behind(name, step):  # type: ignore[no-untyped-def]
    """A linear layer, ``step``, and a layer after it."""

    def make(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
        w, v = weight(generator, 3, 5), weight(generator, 3, 2)
        hidden = (drawn(generator, 6, 5) @ w.T).tanh()
        return per_sample_loss(step(hidden) @ v), [w, v]

    return Case(name, make)


def batch_norm(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.BatchNorm1d(6), nn.Linear(6, 2)).double()
    return per_sample_loss(net(drawn(generator, 6, 5))), list(net.parameters())


def batch_norm_of_images(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    net = nn.Sequential(nn.Conv2d(2, 6, 2), nn.Tanh(), nn.BatchNorm2d(6), nn.Conv2d(6, 2, 2)).double()
    return per_sample_loss(net(drawn(generator, 6, 2, 4, 4))), list(net.parameters())


MEETING = [
    Case("BatchNorm", batch_norm),
    Case("BatchNorm of images", batch_norm_of_images),
    behind("BatchNorm by hand", lambda h: (h - h.mean(0)) / h.std(0)),
    behind("minibatch std", lambda h: torch.cat([h[:, 1:], h.std(0).mean().expand(6, 1)], 1)),
    behind("attention over the batch", lambda h: torch.softmax(h @ h.T, 1) @ h),
    behind("softmax over the batch", lambda h: h.softmax(0)),
    behind("cumsum over the batch", lambda h: h.cumsum(0)),
    behind("a mean of a later layer", lambda h: h * Sine.apply(h).mean(0)),
    behind("a rolled batch", lambda h: h + h.roll(1, 0)),
    behind("a small leak", SmallLeak.apply),
    behind("a rolled backward", Rolled.apply),
]


@pytest.mark.parametrize("case", ids(MEETING))
def test_samples_that_meet_are_an_error_that_says_what_to_do(case: Case) -> None:
    losses, params = case()
    with pytest.raises(CoupledBatch) as raised:
        per_sample_gradients(losses, params)
    assert all(part in str(raised.value) for part in ("where", "Backward", 'batch="coupled"', "assume_independent"))


@pytest.mark.parametrize("case", ids(MEETING))
def test_samples_that_meet_have_exact_gradients_where_asked(case: Case) -> None:
    losses, params = case()
    made = per_sample_gradients(losses, params, batch="coupled", create_graph=True)
    truth = loop_truth(losses, params, create_graph=True)
    assert largest_error(made, truth) < TIGHT
    assert largest_error(second_gradients(made, params), second_gradients(truth, params)) < TIGHT


def test_nobody_looks_where_independence_is_assumed() -> None:
    losses, params = MEETING[0]()
    made = per_sample_gradients(losses, params, batch="assume_independent")
    assert largest_error(made, loop_truth(losses, params)) > 0.01


def test_a_backward_that_is_not_linear_is_an_error() -> None:
    losses, params = behind("normalised", Normalised.apply)()
    with pytest.raises(CoupledBatch, match="reaches sample"):
        per_sample_gradients(losses, params)
    assert largest_error(per_sample_gradients(losses, params, batch="coupled"), loop_truth(losses, params)) < TIGHT


def test_samples_that_are_alike_hide_no_backward_that_is_not_linear() -> None:
    generator = torch.Generator().manual_seed(1)
    for count in (2, 3, 4):
        token, scale = weight(generator, 1, 5), weight(generator, 5)
        losses = per_sample_loss(Normalised.apply(token.expand(count, 5)) * scale)
        with pytest.raises(CoupledBatch):
            per_sample_gradients(losses, [token, scale])


def test_a_backward_that_bends_each_sample_by_itself_is_that_of_a_loop() -> None:
    losses, params = behind("clipped", Clipped.apply)()
    assert largest_error(per_sample_gradients(losses, params), loop_truth(losses, params)) < TIGHT


def test_a_bias_whose_gradient_is_only_rounding_is_no_alarm() -> None:
    """A bias before a normalisation cancels: the vjp and the gradients differ by more than their own size."""
    generator = torch.Generator().manual_seed(1)
    w, b = weight(generator, 3, 5), weight(generator, 3)
    hidden = torch.nn.functional.linear(drawn(generator, 6, 5), w, b)
    losses = per_sample_loss(Sine.apply(hidden - hidden.mean(1, keepdim=True)))
    shift = weight(generator, 1)
    losses = losses + per_sample_loss(Sine.apply(hidden + shift - (hidden + shift).mean(1, keepdim=True)))
    assert largest_error(per_sample_gradients(losses, [w, b, shift]), loop_truth(losses, [w, b, shift])) < TIGHT


def test_an_unknown_step_that_keeps_samples_apart_is_looked_through() -> None:
    losses, params = behind("a sine", Sine.apply)()
    for create_graph in (False, True):
        made = per_sample_gradients(losses, params, create_graph=create_graph)
        assert largest_error(made, loop_truth(losses, params)) < TIGHT


def test_a_weight_of_an_unknown_step_gets_a_backward_for_each_sample() -> None:
    generator = torch.Generator().manual_seed(1)
    w = weight(generator, 3, 5)
    losses = per_sample_loss(ThroughNumpy.apply(drawn(generator, 6, 5), w).tanh())
    assert largest_error([per_sample_gradients(losses, w)], loop_truth(losses, [w])) < TIGHT


def test_a_gate_that_is_zero_is_not_taken_for_a_proof() -> None:
    """The leak comes with a factor that is zero now: the gradients are right, their derivatives would not be."""
    generator = torch.Generator().manual_seed(1)
    w, gate = weight(generator, 3, 5), torch.zeros((), dtype=torch.float64, requires_grad=True)
    hidden = Sine.apply(drawn(generator, 6, 5) @ w.T)
    losses = per_sample_loss(hidden + gate * hidden.flip(0))
    assert largest_error([per_sample_gradients(losses, w)], loop_truth(losses, [w])) < TIGHT
    with pytest.raises(CoupledBatch, match="derivatives meet"):
        per_sample_gradients(losses, w, create_graph=True)


def test_what_every_sample_shares_may_depend_on_data() -> None:
    """A second input, given to all samples alike: no sample owns it, so no two samples meet in it."""
    generator = torch.Generator().manual_seed(1)
    w, v = weight(generator, 3, 5), weight(generator, 5, 3)
    memory = (drawn(generator, 8, 5) @ v).tanh()
    losses = per_sample_loss(torch.softmax(drawn(generator, 6, 5) @ w.T @ memory.T, 1) @ memory)
    made = per_sample_gradients(losses, [w, v], create_graph=True)
    truth = loop_truth(losses, [w, v], create_graph=True)
    assert largest_error(made, truth) < TIGHT
    assert largest_error(second_gradients(made, [w, v]), second_gradients(truth, [w, v])) < TIGHT


def test_a_prior_on_parameters_of_which_samples_own_rows_is_exact() -> None:
    """Every loss holds all codes, so no sample owns its own any more."""
    generator = torch.Generator().manual_seed(1)
    codes = weight(generator, 6, 5)
    losses = per_sample_loss((codes * drawn(generator, 6, 5)).tanh()) + codes.square().mean()
    assert largest_error([per_sample_gradients(losses, codes)], loop_truth(losses, [codes])) < TIGHT
