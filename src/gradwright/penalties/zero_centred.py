"""``r1_penalty`` and ``r2_penalty``: zero-centred gradient penalties of a discriminator.

Mescheder et al. 2018, "Which training methods for GANs do actually converge?", arXiv:1801.04406, equations 9 and 10:

    R1 = gamma / 2  E_{x real} ||grad_x D(x)||^2            R2 = gamma / 2  E_{x fake} ||grad_x D(x)||^2

R1 looks at data, R2 at what the generator makes; one formula, at two places.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.penalties.values import Reduction, one_each, read_reduction, reduced, squares


def r1_penalty(
    scores: Output, wrt: Wrt, weight: float = 10.0, reduction: Reduction = "mean", batch: Batch = "auto"
) -> Tensor:
    """weight / 2 * ||d scores_b / d real_b||^2 of every sample b.

    ``scores``: [B] or [B, 1], the discriminator's logits of real samples, of a graph that exists (``wrt`` needs
    ``requires_grad_()`` before it is called), or the discriminator itself, which is then called with ``wrt``.
    ``wrt``: [B, *D], the real samples.  ``weight``: gamma.
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, at least float32; differentiable.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then); UsageError where there is not one score
    per sample; NoSecondDerivative, DerivativeError.  Cost: one differentiable backward.

    >>> import torch
    >>> real = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> r1_penalty(real.prod(1), wrt=real, weight=2.0).item()  # the gradient is (2, 1)
    5.0
    """
    return _zero_centred(scores, wrt, weight, reduction, batch)


def r2_penalty(
    scores: Output, wrt: Wrt, weight: float = 10.0, reduction: Reduction = "mean", batch: Batch = "auto"
) -> Tensor:
    """weight / 2 * ||d scores_b / d fake_b||^2 of every sample b: ``r1_penalty``, at samples of the generator.

    Arguments, result, errors, cost: those of ``r1_penalty``.  Give ``fake.detach().requires_grad_()`` where only the
    discriminator is trained: a ``wrt`` with a graph behind it passes the penalty's gradient on to the generator.

    >>> import torch
    >>> fake = torch.tensor([[1.0, 2.0]])
    >>> r2_penalty(lambda x: x.prod(1), wrt=fake).item()
    25.0
    """
    return _zero_centred(scores, wrt, weight, reduction, batch)


def _zero_centred(scores: Output, wrt: Wrt, weight: float, reduction: Reduction, batch: Batch) -> Tensor:
    read_reduction(reduction)
    scores, wrt = evaluated(scores, wrt, create_graph=True)
    gradients = batch_jacobian(one_each(scores, "scores"), wrt, batch=batch, create_graph=True)
    return reduced(weight / 2 * squares(gradients), reduction)
