"""The losses of critics and generators: the margin, batches of two sizes, and what they refuse."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.losses.generative import hinge_gan, wgan

CRITICS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], type]] = {
    "wgan": (wgan.wgan_critic_loss, wgan.reference_critic, wgan.WGANCriticLoss),
    "hinge": (
        hinge_gan.hinge_gan_discriminator_loss,
        hinge_gan.reference_discriminator,
        hinge_gan.HingeGANDiscriminatorLoss,
    ),
}
GENERATORS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], type]] = {
    "wgan": (wgan.wgan_generator_loss, wgan.reference_generator, wgan.WGANGeneratorLoss),
    "hinge": (
        hinge_gan.hinge_gan_generator_loss,
        hinge_gan.reference_generator,
        hinge_gan.HingeGANGeneratorLoss,
    ),
}
_REAL = torch.tensor([0.5, 2.0, -1.0, 1e4])
_FAKE = torch.tensor([-0.5, -2.0, 1.0, 1e4])
EVERY_CRITIC = pytest.mark.parametrize("name", CRITICS)


@EVERY_CRITIC
def test_critics_reference_and_module_agree(name: str) -> None:
    loss, reference, module = CRITICS[name]
    each = reference(_REAL, _FAKE)
    assert torch.equal(loss(_REAL, _FAKE, "none"), each)
    assert module()(_REAL, _FAKE).item() == pytest.approx(each.mean().item())
    assert module().plan(_REAL.clone().requires_grad_(), _FAKE).backend == "numba"


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_reference_and_module_agree(name: str) -> None:
    loss, reference, module = GENERATORS[name]
    fake = _FAKE.clone().requires_grad_()
    assert torch.equal(loss(fake, "none"), reference(fake))
    assert module()(fake).item() == pytest.approx(reference(fake).mean().item())
    assert torch.equal(torch.autograd.grad(loss(fake), fake)[0], torch.full((4,), -0.25))


def test_beyond_its_margin_the_discriminator_learns_nothing() -> None:
    real, fake = torch.tensor([0.5, 1.0, 2.0, -1e4, 1e4]), torch.tensor([-0.5, -1.0, -2.0, 1e4, -1e4])
    real.requires_grad_()
    fake.requires_grad_()
    loss = hinge_gan.hinge_gan_discriminator_loss(real, fake, "sum")
    of_real, of_fake = torch.autograd.grad(loss, (real, fake))
    assert loss.item() == 0.5 + 0.5 + 10001 + 10001
    assert of_real.tolist() == [-1.0, 0.0, 0.0, -1.0, 0.0]
    assert of_fake.tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]


@EVERY_CRITIC
def test_the_value_of_a_critic_is_exact_over_all_magnitudes(name: str) -> None:
    loss, reference, _ = CRITICS[name]
    size = torch.cat([torch.logspace(-8, 4, 100), -torch.logspace(-8, 4, 100)])
    real, fake = (each.reshape(-1) for each in torch.meshgrid(size, size, indexing="ij"))
    known = reference(real.double(), fake.double())
    found = loss(real, fake, "none")
    torch.testing.assert_close(found.double(), known, rtol=3e-7, atol=1e-7 if name == "hinge" else 0)


@EVERY_CRITIC
def test_each_of_two_batches_has_a_mean_of_its_own(name: str) -> None:
    loss, _, _ = CRITICS[name]
    real, fake = torch.randn(6, 2).requires_grad_(), torch.randn(3).requires_grad_()
    known = loss(real, torch.zeros(6, 2)) + loss(torch.zeros(3), fake) - loss(torch.zeros(1), torch.zeros(1))
    found = loss(real, fake)
    torch.testing.assert_close(found, known)
    for ours, theirs in zip(
        torch.autograd.grad(found, (real, fake)), torch.autograd.grad(known, (real, fake)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@EVERY_CRITIC
def test_micro_batches_divided_by_num_items_add_up_to_the_batch(name: str) -> None:
    loss, _, _ = CRITICS[name]
    whole = loss(_REAL, _FAKE)
    parts = loss(_REAL[:1], _FAKE[:3], num_items=4) + loss(_REAL[1:], _FAKE[3:], num_items=4)
    torch.testing.assert_close(parts, whole)


@EVERY_CRITIC
@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", math.nan)])
def test_a_mean_of_nothing_is_what_was_asked_for(name: str, empty: str, value: float) -> None:
    loss, _, _ = CRITICS[name]
    real = _REAL.clone().requires_grad_()
    masked = loss(real, _FAKE, mask=torch.zeros(4, dtype=torch.bool), empty=empty)
    assert masked.item() == pytest.approx(value, nan_ok=True)
    assert loss(_REAL[:0], _FAKE[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        assert not torch.autograd.grad(masked, real)[0].any()
        assert GENERATORS[name][0](_FAKE[:0]).item() == 0


@EVERY_CRITIC
def test_scores_of_mixed_dtypes_get_gradients_of_their_own(name: str) -> None:
    real, fake = _REAL.bfloat16().requires_grad_(), _FAKE.clone().requires_grad_()
    loss = CRITICS[name][0](real, fake)
    loss.backward()
    assert real.grad is not None and fake.grad is not None
    assert (loss.dtype, real.grad.dtype, fake.grad.dtype) == (torch.float32, torch.bfloat16, torch.float32)


def test_a_score_that_is_nan_makes_a_loss_that_is() -> None:
    for loss, _, _ in CRITICS.values():
        assert math.isnan(loss(torch.tensor([math.nan, 1.0]), torch.zeros(2)).item())


REFUSED: dict[str, dict[str, Any]] = {
    'real has shape [4], fake [4, 1], and reduction="none" is given': {"fake": _FAKE[:, None], "reduction": "none"},
    "real has shape [4], fake [3], and mask is given": {"fake": _FAKE[:3], "mask": torch.ones(4, dtype=torch.bool)},
    "real is int64[4]": {"real": torch.ones(4, dtype=torch.int64)},
    "fake is a list": {"fake": [1.0]},
    "mask has shape [3]": {"mask": torch.ones(3, dtype=torch.bool)},
    "reduction is 'max'": {"reduction": "max"},
}


@EVERY_CRITIC
@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_named(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        CRITICS[name][0](**{"real": _REAL, "fake": _FAKE, **REFUSED[message]})
    assert str(caught.value).startswith(message)
