"""``gradient_penalty``: the gradient penalty of WGAN-GP.

Gulrajani et al. 2017, "Improved training of Wasserstein GANs", arXiv:1704.00028, equation 3 and algorithm 1:

    P_b = lambda ( ||grad_x D(x_b)||_2 - 1 )^2,     x_b = e_b real_b + (1 - e_b) fake_b,     e_b ~ U[0, 1]

Two-sided, with one e per sample (not per batch, not per pixel), and the norm over all numbers of a sample: a norm over
axis 1 of an image batch takes it over the channels of each pixel (issue 27 of caogang/wgan-gp). The points x_b are
constants: the penalty trains the critic, and no gradient flows to the generator.

Section 4 of the paper, "No critic batch normalization": the penalty is about the critic's gradient at each input by
itself, and BatchNorm makes the critic a function of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.errors import CoupledBatch, UsageError
from gradwright.ground.torch_versions.modules import BatchNorm
from gradwright.penalties.values import Reduction, norms, one_each, read_reduction, reduced


def gradient_penalty(
    critic: Callable[[Tensor], Tensor],
    real: Tensor,
    fake: Tensor,
    weight: float = 10.0,
    reduction: Reduction = "mean",
    generator: torch.Generator | None = None,
    batch: Batch = "auto",
) -> Tensor:
    """weight * (||grad critic(x_b)|| - 1)^2, x_b at random between real_b and fake_b.

    ``critic``: a module, or any function, from [B, *D] to [B] or [B, 1]; a conditional one as
    ``lambda x: critic(x, labels)``.  ``real``, ``fake``: [B, *D].  ``generator``: of the B numbers e_b; torch's own
    random numbers where none is given.
    Result: a scalar, or [B] with reduction="none"; dtype of ``real``, at least float32; differentiable with respect to
    the critic's parameters.
    Raises: CoupledBatch for a critic whose samples meet, before it is called where it holds a BatchNorm that trains
    (``batch`` says what to do then); UsageError for shapes that differ, or several scores per sample;
    NoSecondDerivative.  Cost: one forward and one differentiable backward of the critic.

    >>> critic = nn.Linear(3, 1)
    >>> _ = nn.init.constant_(critic.weight, 3.0)  # the gradient is (3, 3, 3), its norm 27 ** 0.5
    >>> gradient_penalty(critic, torch.ones(4, 3), torch.zeros(4, 3), weight=1.0).item()
    17.60769...
    """
    read_reduction(reduction)
    if real.shape != fake.shape or real.ndim == 0:
        raise UsageError(
            f"real has shape {list(real.shape)}, fake {list(fake.shape)}: needed are as many of one as of the other, "
            "[B, *D] both; where the last batch of real data is smaller, give fake[:len(real)]"
        )
    if batch == "auto":
        _refuse_batch_norm(critic)
    x = _between(real.detach(), fake.detach(), generator)
    with torch.enable_grad():
        scores = one_each(critic(x.requires_grad_()), "the critic's scores", len(x))
    gradients = batch_jacobian(scores, x, batch=batch, create_graph=True)
    return reduced(weight * (norms(gradients) - 1).square(), reduction)


def _between(real: Tensor, fake: Tensor, generator: torch.Generator | None) -> Tensor:
    """e_b real_b + (1 - e_b) fake_b, with one e_b per sample."""
    device = real.device if generator is None else generator.device
    share = torch.rand(len(real), generator=generator, device=device).to(real)
    share = share.reshape(-1, *[1] * (real.ndim - 1))
    return share * real + (1 - share) * fake


def _refuse_batch_norm(critic: object) -> None:
    """Before the critic is called: a forward would change its running statistics.  Raises: CoupledBatch."""
    if not isinstance(critic, nn.Module):
        return
    for name, module in critic.named_modules():
        if isinstance(module, BatchNorm) and (module.training or module.running_mean is None):
            raise CoupledBatch(
                f"the critic holds a {type(module).__name__} that normalises over the batch.\n"
                f"  where  {name or 'the critic itself'}: {module}\n"
                "  why    the penalty is about the gradient at each sample by itself; with BatchNorm a score depends "
                "on the whole batch (Gulrajani et al. 2017, section 4)\n"
                "  do     take LayerNorm, GroupNorm or InstanceNorm in the critic; or critic.eval(); or, to have the "
                'gradient of the summed scores all the same, batch="assume_independent"'
            )
