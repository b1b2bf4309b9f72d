from __future__ import annotations

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from tests.penalties.loops import same_training
from torch import Tensor, nn

from gradwright.errors import CoupledBatch, UsageError
from gradwright.penalties import gradient_penalty


def critic_of_images(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(27, 1)
    ).double()


def images(seed: int, samples: int = 4) -> Tensor:
    return torch.randn(samples, 2, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def between(seed: int, real: Tensor, fake: Tensor) -> Tensor:
    share = torch.rand(len(real), generator=seeded(seed)).double()
    return torch.stack([e * r + (1 - e) * f for e, r, f in zip(share, real, fake, strict=True)]).requires_grad_()


def by_equation_3(critic: nn.Module, x: Tensor) -> Tensor:
    blocks = one_hot_jacobian(critic(x), x, create_graph=True)
    return torch.stack([10 * (block.square().sum().sqrt() - 1) ** 2 for block in blocks])


def test_it_is_equation_3_on_images() -> None:
    critic, real, fake = critic_of_images(), images(1), images(2)
    found = gradient_penalty(critic, real, fake, generator=seeded(7), reduction="none")
    expected = by_equation_3(critic, between(7, real, fake))
    assert same_training(found, expected, list(critic.parameters()))


def over_channels(critic: nn.Module, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return 10 * (gradient.norm(2, dim=1) - 1).square().mean((1, 2))  # wgan-gp, issue 27


def one_sided(critic: nn.Module, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return 10 * (gradient.flatten(1).norm(dim=1) - 1).clamp_min(0).square()


def detached(critic: nn.Module, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(critic(x).sum(), x)
    return 10 * (gradient.flatten(1).norm(dim=1) - 1).square() + 0 * critic(x).squeeze(1)


def of_the_mean(critic: nn.Module, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(critic(x).mean(), x, create_graph=True)
    return 10 * (gradient.flatten(1).norm(dim=1) - 1).square()


@pytest.mark.parametrize("wrong", [over_channels, one_sided, detached, of_the_mean], ids=lambda wrong: wrong.__name__)
def test_equation_3_rejects_a_penalty(wrong: object) -> None:
    assert callable(wrong)
    critic, x = critic_of_images(), images(1).requires_grad_()
    assert not same_training(wrong(critic, x), by_equation_3(critic, x), list(critic.parameters()))


def test_every_sample_has_a_share_of_its_own_and_all_of_it_one() -> None:
    seen: list[Tensor] = []

    def critic(x: Tensor) -> Tensor:
        seen.append(x)
        return x.flatten(1).sum(1)

    gradient_penalty(critic, torch.ones(50, 2, 3), torch.zeros(50, 2, 3), generator=seeded())
    (x,) = seen
    assert torch.equal(x, x[:, :1, :1].expand(x.shape))
    assert len(x[:, 0, 0].unique()) == 50
    assert x.min() >= 0 and x.max() <= 1 and 0.3 < x.mean() < 0.7


def test_the_generator_gets_no_gradient() -> None:
    critic, latent = critic_of_images(), images(3).requires_grad_()
    penalty = gradient_penalty(critic, images(1), latent.tanh())
    penalty.backward()
    assert latent.grad is None
    assert all(parameter.grad is not None for parameter in critic[0].parameters())


def test_a_generator_of_numbers_repeats_and_spares_the_random_state() -> None:
    critic, state = critic_of_images(), torch.get_rng_state()
    one, two = (gradient_penalty(critic, images(1), images(2), generator=seeded(4)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_weight_multiplies() -> None:
    critic = critic_of_images()
    one, ten = (gradient_penalty(critic, images(1), images(2), weight=w, generator=seeded()) for w in (1.0, 10.0))
    torch.testing.assert_close(10 * one, ten)


def test_a_critic_without_slope_can_be_trained() -> None:
    critic = nn.Linear(3, 1).double()
    nn.init.zeros_(critic.weight)
    penalty = gradient_penalty(critic, torch.ones(4, 3).double(), torch.zeros(4, 3).double())
    assert penalty.item() == 10
    penalty.backward()
    assert critic.weight.grad is not None and critic.weight.grad.isfinite().all()


def test_no_grad_around_it_is_no_obstacle_for_the_value() -> None:
    critic = critic_of_images()
    with torch.no_grad():
        found = gradient_penalty(critic, images(1), images(2), generator=seeded(7))
    torch.testing.assert_close(found, gradient_penalty(critic, images(1), images(2), generator=seeded(7)))


def test_batch_norm_in_the_critic_is_refused_before_it_is_called() -> None:
    critic = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    with pytest.raises(CoupledBatch, match=r"BatchNorm1d(.|\n)*where  1:(.|\n)*LayerNorm"):
        gradient_penalty(critic, torch.ones(4, 3), torch.zeros(4, 3))
    assert critic[1].num_batches_tracked == 0


def test_batch_norm_that_does_not_train_is_welcome() -> None:
    critic = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double().eval()
    real, fake = (torch.randn(4, 3, generator=seeded(seed), dtype=torch.float64) for seed in (1, 2))
    found = gradient_penalty(critic, real, fake, generator=seeded(7), reduction="none")
    assert same_training(found, by_equation_3(critic, between(7, real, fake)), list(critic.parameters()))


def test_samples_that_meet_without_batch_norm_are_found_on_the_graph() -> None:
    def with_minibatch_deviation(x: Tensor) -> Tensor:
        return (x * x.std(0)).sum(1)

    with pytest.raises(CoupledBatch):
        gradient_penalty(with_minibatch_deviation, torch.randn(4, 3), torch.randn(4, 3))


@pytest.mark.parametrize(
    ("critic", "fake", "said"),
    [
        (lambda x: x.sum(1), torch.zeros(3, 2), r"real has shape \[4, 2\], fake \[3, 2\](.|\n)*fake\[:len\(real\)\]"),
        (lambda x: x.sum(1), torch.zeros(4, 1), r"real has shape \[4, 2\], fake \[4, 1\]"),
        (lambda x: x.mean(), torch.zeros(4, 2), "the critic's scores: a scalar"),
        (
            lambda x: x,
            torch.zeros(4, 2),
            r"scores: shape \[4, 2\]; needed is one number per sample, \[4\]",
        ),
        (lambda x: None, torch.zeros(4, 2), "the critic's scores: a NoneType"),
    ],
    ids=["fewer", "broadcast", "scalar", "several", "nothing"],
)
def test_what_does_not_fit_is_said(critic: object, fake: Tensor, said: str) -> None:
    assert callable(critic)
    with pytest.raises(UsageError, match=said):
        gradient_penalty(critic, torch.ones(4, 2), fake)
