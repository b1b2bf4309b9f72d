"""The Wasserstein GAN's losses: of the critic that tells generated samples from real ones, and of the generator.

With the critic's scores D(x) of real samples x and D(g) of generated ones g,

    critic      l = D(g) - D(x),        dl/dD(g) = 1,  dl/dD(x) = -1
    generator   l = -D(g),              dl/dD(g) = -1

each mean over its samples: minus the critic's loss, at its least over all functions of Lipschitz constant 1, is the
Wasserstein-1 distance. Arjovsky, Chintala & Bottou 2017, "Wasserstein GAN", arXiv:1701.07875, equation 2 and algorithm
1. What makes the critic Lipschitz (clipped weights there, a gradient penalty, a spectral norm) is not part of the loss.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real
from gradwright.losses.generative.scores import ScoresLoss, TwoSided

_CRITIC_WHERE = "wgan_critic_loss(real, fake)"
_GENERATOR_WHERE = "wgan_generator_loss(fake)"
_CRITIC = TwoSided("wgan_critic_loss", "side*score")
_GENERATOR = Additive("wgan_generator_loss", "-fake", ())


def wgan_critic_loss(
    real: Tensor,
    fake: Tensor,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """The mean of ``fake`` less the mean of ``real``: the critic's scores of generated and of real samples.

    Shapes: alike; or of any two shapes, where ``reduction`` is not "none" and no ``mask`` is given. ``mask`` (bool:
    which pairs count) broadcasts to them. Result: a scalar; of their shape with ``reduction="none"``. ``num_items``:
    what both sums are divided by instead of the counts. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: those of the scores. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, both gradients written: 16 bytes a pair in float32; a pass for each,
    of the same bytes, where the shapes differ.
    Raises: UsageError for shapes that differ where pairs are asked for, and options that can't be right.

    >>> import torch
    >>> wgan_critic_loss(torch.tensor([3.0, 5.0]), torch.tensor([1.0, 0.0, -1.0])).item()
    -4.0
    """
    options = options_of(_CRITIC_WHERE, reduction, mask, num_items, empty)
    return _CRITIC(_CRITIC_WHERE, real, fake, options)


def wgan_generator_loss(
    fake: Tensor,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """Minus the mean of ``fake``, the critic's scores of generated samples.

    Shapes: any; ``mask`` (bool: which scores count) broadcasts to it. Result: a scalar; of its shape with
    ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count. ``empty``: a mean of nothing
    is 0 ("zero") or NaN ("nan").
    Units: those of the scores. Dtype: that of ``fake``; computed in float32 at least.
    Coupling: additive. Cost: one pass: read, the gradient written: 8 bytes an element in float32.
    Raises: UsageError for options that can't be right.

    >>> import torch
    >>> wgan_generator_loss(torch.tensor([1.0, 2.0])).item()
    -1.5
    """
    options = options_of(_GENERATOR_WHERE, reduction, mask, num_items, empty)
    require_real(_GENERATOR_WHERE, fake=fake)
    return _GENERATOR(_GENERATOR_WHERE, {"fake": fake}, {}, options)


def reference_critic(real: Tensor, fake: Tensor) -> Tensor:
    """The critic's loss, unreduced and unfused."""
    return fake - real


def reference_generator(fake: Tensor) -> Tensor:
    """The generator's loss, unreduced and unfused."""
    return -fake


class WGANCriticLoss(ScoresLoss):
    """``wgan_critic_loss`` as a module.

    >>> import torch
    >>> loss = WGANCriticLoss()
    >>> loss(torch.tensor([3.0]), torch.tensor([1.0])).item(), loss.coupling
    (-2.0, 'additive')
    """

    _where = _CRITIC_WHERE

    def forward(
        self, real: Tensor, fake: Tensor, *, mask: Tensor | None = None, num_items: float | Tensor | None = None
    ) -> Tensor:
        return wgan_critic_loss(real, fake, self.reduction, mask=mask, num_items=num_items, empty=self.empty)


class WGANGeneratorLoss(ScoresLoss):
    """``wgan_generator_loss`` as a module.

    >>> import torch
    >>> loss = WGANGeneratorLoss()
    >>> loss(torch.tensor([3.0])).item(), loss.coupling
    (-3.0, 'additive')
    """

    _where = _GENERATOR_WHERE

    def forward(self, fake: Tensor, *, mask: Tensor | None = None, num_items: float | Tensor | None = None) -> Tensor:
        return wgan_generator_loss(fake, self.reduction, mask=mask, num_items=num_items, empty=self.empty)
