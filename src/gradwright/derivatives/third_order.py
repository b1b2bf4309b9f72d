"""Nodes whose third derivative autograd may get wrong, without a word: see NOTE [Suspicions].

A Hessian that is to be differentiated again needs the third derivative of every node on the way. The second derivative
of a normalisation layer is a formula of its own in torch, that takes the mean and the deviation for constants when it
is differentiated once more (torch 2.14 refuses to, for a BatchNorm). Found by finite differences of second derivatives,
over every operator of torch.testing's op_db (CPU, float64): 8.35 for 8.10 through a layer norm. GroupNorm is right, and
so is a BatchNorm in evaluation, which is linear. Torch 2.14, the first to have a second derivative of ``pdist``, makes
NaN of its third.
"""

from __future__ import annotations

from gradwright.derivatives.graph.lines import HOW_TO_LEARN_LINES, line_of
from gradwright.derivatives.graph.way import Step, Way
from gradwright.derivatives.suspicions import Answer, ask, is_right_thrice
from gradwright.errors import DerivativeError
from gradwright.ground.torch_versions.nodes import read_saved

_LAYER_NORM = "use torch.nn.GroupNorm(1, C), on [B, C] the same; or write it out, (x - mean) * (var + eps).rsqrt()"
_BATCH_NORM = "write the normalisation out, (x - mean) * (var + eps).rsqrt(), or use GroupNorm"

WRONG_THIRD = {
    "NativeLayerNormBackward0": _LAYER_NORM,
    "NativeBatchNormBackward0": _BATCH_NORM,
    "NativeBatchNormLegitBackward0": _BATCH_NORM,
    "NativeBatchNormLegitBackward1": _BATCH_NORM,
    "BatchNormWithUpdateBackward0": _BATCH_NORM,
    "CudnnBatchNormBackward0": _BATCH_NORM,
    "MiopenBatchNormBackward0": _BATCH_NORM,
    "PdistBackward0": "take the norm of x[:, None] - x at the pairs of torch.triu_indices",
}


def wrong_third(way: Way) -> Step | None:
    """The first step on the way whose backward's backward can't be differentiated once more."""
    suspected = (step for step in way.steps if step.name in WRONG_THIRD and _normalises(step))
    return next((step for step in suspected if _ask(step).holds), None)


def require_thrice(way: Way) -> None:
    """Make sure that what goes backwards through a backward, an hvp or a double vjp, can be differentiated once more.

    Raises: DerivativeError, naming the node, its line where known, and what to do.
    """
    step = wrong_third(way)
    if step is not None:
        raise DerivativeError(
            f"torch's third derivative of {step.name} is wrong or refused, and backwards through a backward with "
            f"create_graph=True need one.\n"
            f"  where  {line_of(step.node) or HOW_TO_LEARN_LINES}\n"
            f"         between y {list(way.output.shape)} and {way.target.describe()}\n"
            f"  do     gw.laplacian pushes forward and is right, where it finds every node known; otherwise "
            f"{WRONG_THIRD[step.name]}{_ask(step).describe_origin()}"
        )


def _ask(step: Step) -> Answer:
    return ask(is_right_thrice, step.name)


def _normalises(step: Step) -> bool:
    """Whether the statistics are those of the input: not in evaluation, with running ones."""
    return bool(read_saved(step.node, "training", True))
