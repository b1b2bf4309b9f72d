"""``score_matching``: fit a score s(x) = grad log p(x) to samples, without knowing p.

Hyvarinen 2005, "Estimation of non-normalized statistical models by score matching", JMLR 6, theorem 1:

    P_b = 1/2 ||s(x_b)||^2 + tr ds_b/dx_b

"exact": D rows of the Jacobian for its trace.  With n random directions v per sample, E v v^T = 1, one backward each:
"hutchinson": tr J ~ v^T J v (Hutchinson 1990), which is the sliced objective with its variance reduced, SSM-VR;
"sliced": Song, Garg, Shi & Ermon 2019, "Sliced score matching", arXiv:1905.07088 (SSM):

    P_b ~ (1 / n) sum_i  v_ib^T J_b v_ib + 1/2 (v_ib . s_b)^2

The directions are signs, +1 or -1 (Rademacher), which both papers allow and which have the least variance in v^T J v.
All three have one expectation: they differ by noise alone. Up to a constant, E P is half of E ||s - grad log p||^2, so
the minimum is below zero.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from gradwright.derivatives.divergences import divergence
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.target import Wrt, read_target
from gradwright.derivatives.methods.estimators import random_signs
from gradwright.derivatives.products import vjp
from gradwright.errors import UsageError
from gradwright.penalties.values import Reduction, read_reduction, reduced, squares, widened

Estimator: TypeAlias = Literal["exact", "hutchinson", "sliced"]


def score_matching(
    score: Output,
    wrt: Wrt,
    estimator: Estimator = "exact",
    samples: int = 1,
    generator: torch.Generator | None = None,
    reduction: Reduction = "mean",
    batch: Batch = "auto",
) -> Tensor:
    """1/2 ||score_b||^2 + trace of d score_b / d wrt_b, of every sample b.

    ``score``: the shape of ``wrt``, [B, *D], of a graph that exists, or the network, which is then called with ``wrt``.
    For a network that gives log p, take ``gw.batch_gradient(log_p, wrt=x, create_graph=True)`` as the score.
    ``estimator``: "exact", or "hutchinson" or "sliced" along ``samples`` random directions, drawn from ``generator``
    as ``gw.divergence`` draws them.
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, at least float32; differentiable.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then; the estimates need no such care: what leaks
    from one sample into another is multiplied by independent signs, and has mean zero), NoSecondDerivative,
    DerivativeError, UsageError.  Cost: D differentiable backwards; estimated, one per direction.

    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> score_matching(-x, wrt=x).item()  # 1/2 (1 + 4) - 2
    0.5
    """
    read_reduction(reduction)
    if estimator not in get_args(Estimator) or samples < 1:
        raise UsageError(
            f"estimator={estimator!r}, samples={samples}: choose exact, hutchinson or sliced; samples from 1"
        )
    score, wrt = evaluated(score, wrt, create_graph=True)
    shape = read_target(wrt).shape
    if not isinstance(score, Tensor) or score.shape != shape or score.is_complex():
        told = f"{score.dtype} {list(score.shape)}" if isinstance(score, Tensor) else type(score).__name__
        raise UsageError(
            f"score is {told}, wrt has shape {list(shape)}: a score is a gradient of real numbers with respect to wrt, "
            "so they are of one shape; from log p [B] it is gw.batch_gradient(log_p, wrt=x, create_graph=True)"
        )
    if estimator == "sliced":
        return reduced(_sliced(score, wrt, samples, generator), reduction)
    trace = divergence(
        score, wrt, estimator=estimator, samples=samples, generator=generator, batch=batch, create_graph=True
    )
    return reduced(squares(score) / 2 + widened(trace), reduction)


def _sliced(score: Tensor, wrt: Wrt, samples: int, generator: torch.Generator | None) -> Tensor:
    found = []
    for _ in range(samples):
        direction = random_signs(score, generator)
        along = (widened(score) * direction).flatten(1).sum(1)
        curved = widened(vjp(score, wrt, direction, create_graph=True)) * direction
        found.append(curved.flatten(1).sum(1) + along.square() / 2)
    return torch.stack(found).mean(0)
