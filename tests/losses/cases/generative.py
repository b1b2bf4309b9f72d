"""Losses of a critic's scores."""

from functools import partial

from tests.losses.case import Case, drawn, normal
from torch.nn import functional as F

from gradwright.losses.generative.hinge_gan import hinge_gan_discriminator_loss, hinge_gan_generator_loss
from gradwright.losses.generative.wgan import wgan_critic_loss, wgan_generator_loss

_ALIKE = drawn(normal(6, 7), normal(6, 7))
_APART = drawn(normal(6, 7), normal(5, 3))

CASES = [
    Case("wgan critic", wgan_critic_loss, lambda r, f: f.mean() - r.mean(), _ALIKE, wanted=2),
    Case("wgan critic, other batch", wgan_critic_loss, lambda r, f: f.mean() - r.mean(), _APART, wanted=2),
    Case("wgan generator, sum", partial(wgan_generator_loss, reduction="sum"), lambda f: -f.sum(), drawn(normal(6, 7))),
    Case("hinge gan discriminator", hinge_gan_discriminator_loss,
         lambda r, f: F.relu(1 - r).mean() + F.relu(1 + f).mean(), _ALIKE, wanted=2),
    Case("hinge gan discriminator, other batch", hinge_gan_discriminator_loss,
         lambda r, f: F.relu(1 - r).mean() + F.relu(1 + f).mean(), _APART, wanted=2),
    Case("hinge gan discriminator, masked", lambda r, f: hinge_gan_discriminator_loss(r, f, mask=f.detach() > 0),
         lambda r, f: F.relu(1 - r[f > 0]).mean() + F.relu(1 + f[f > 0]).mean(), _ALIKE),
    Case("hinge gan generator", hinge_gan_generator_loss, lambda f: -f.mean(), drawn(normal(6, 7))),
]  # fmt: skip
