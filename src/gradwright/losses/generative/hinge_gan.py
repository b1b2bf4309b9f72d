"""The hinge GAN's losses: a discriminator with a margin, and the generator it teaches.

With the discriminator's scores D(x) of real samples x and D(g) of generated ones g,

    discriminator   l = max(0, 1 - D(x)) + max(0, 1 + D(g))
                    dl/dD(x) = -1 where D(x) < 1,  dl/dD(g) = 1 where D(g) > -1,  else 0 (and at the margin)
    generator       l = -D(g),  dl/dD(g) = -1

each mean over its samples. Lim & Ye 2017, "Geometric GAN", arXiv:1705.02894; Miyato, Kataoka,
Koyama & Yoshida 2018, "Spectral Normalization for Generative Adversarial Networks", arXiv:1802.05957, equations 16 and
17. The spectral norm is the discriminator's, and not part of the loss.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real
from gradwright.losses.generative.scores import ScoresLoss, TwoSided

_DISCRIMINATOR_WHERE = "hinge_gan_discriminator_loss(real, fake)"
_GENERATOR_WHERE = "hinge_gan_generator_loss(fake)"
_DISCRIMINATOR = TwoSided("hinge_gan_discriminator_loss", "relu(1 + side*score)")
_GENERATOR = Additive("hinge_gan_generator_loss", "-fake", ())


def hinge_gan_discriminator_loss(
    real: Tensor,
    fake: Tensor,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """max(0, 1 - real) + max(0, 1 + fake), of the discriminator's scores of real and of generated samples.

    Shapes: alike; or of any two shapes, where ``reduction`` is not "none" and no ``mask`` is given: then each side is
    divided by its own count. ``mask`` (bool: which pairs count) broadcasts to them. Result: a scalar; of their shape
    with ``reduction="none"``. ``num_items``: what both sums are divided by instead of the counts. ``empty``: a mean of
    nothing is 0 ("zero") or NaN ("nan").
    Units: the scores have none: the margin is 1. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, both gradients written: 16 bytes a pair in float32; a pass for each,
    of the same bytes, where the shapes differ.
    Raises: UsageError for shapes that differ where pairs are asked for, and options that can't be right.

    >>> import torch
    >>> hinge_gan_discriminator_loss(torch.tensor([0.5, 2.0]), torch.tensor([-3.0, 0.5]), "none").tolist()
    [0.5, 1.5]
    """
    options = options_of(_DISCRIMINATOR_WHERE, reduction, mask, num_items, empty)
    return _DISCRIMINATOR(_DISCRIMINATOR_WHERE, real, fake, options)


def hinge_gan_generator_loss(
    fake: Tensor,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """Minus the mean of ``fake``, the discriminator's scores of generated samples.

    Shapes: any; ``mask`` (bool: which scores count) broadcasts to it. Result: a scalar; of its shape with
    ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count. ``empty``: a mean of nothing
    is 0 ("zero") or NaN ("nan").
    Units: those of the scores. Dtype: that of ``fake``; computed in float32 at least.
    Coupling: additive. Cost: one pass: read, the gradient written: 8 bytes an element in float32.
    Raises: UsageError for options that can't be right.

    >>> import torch
    >>> hinge_gan_generator_loss(torch.tensor([1.0, 2.0])).item()
    -1.5
    """
    options = options_of(_GENERATOR_WHERE, reduction, mask, num_items, empty)
    require_real(_GENERATOR_WHERE, fake=fake)
    return _GENERATOR(_GENERATOR_WHERE, {"fake": fake}, {}, options)


def reference_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """The discriminator's loss, unreduced and unfused."""
    return (1 - real).relu() + (1 + fake).relu()


def reference_generator(fake: Tensor) -> Tensor:
    """The generator's loss, unreduced and unfused."""
    return -fake


class HingeGANDiscriminatorLoss(ScoresLoss):
    """``hinge_gan_discriminator_loss`` as a module.

    >>> import torch
    >>> loss = HingeGANDiscriminatorLoss()
    >>> loss(torch.tensor([0.5]), torch.tensor([0.0])).item(), loss.coupling
    (1.5, 'additive')
    """

    _where = _DISCRIMINATOR_WHERE

    def forward(
        self, real: Tensor, fake: Tensor, *, mask: Tensor | None = None, num_items: float | Tensor | None = None
    ) -> Tensor:
        return hinge_gan_discriminator_loss(
            real, fake, self.reduction, mask=mask, num_items=num_items, empty=self.empty
        )


class HingeGANGeneratorLoss(ScoresLoss):
    """``hinge_gan_generator_loss`` as a module.

    >>> import torch
    >>> loss = HingeGANGeneratorLoss()
    >>> loss(torch.tensor([3.0])).item(), loss.coupling
    (-3.0, 'additive')
    """

    _where = _GENERATOR_WHERE

    def forward(self, fake: Tensor, *, mask: Tensor | None = None, num_items: float | Tensor | None = None) -> Tensor:
        return hinge_gan_generator_loss(fake, self.reduction, mask=mask, num_items=num_items, empty=self.empty)
