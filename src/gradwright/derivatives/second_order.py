"""Nodes without a second derivative, found before anything is computed."""

from __future__ import annotations

from typing import Any

from torch.autograd.function import once_differentiable

from gradwright.derivatives.graph.lines import HOW_TO_LEARN_LINES, decorated, line_of
from gradwright.derivatives.graph.way import Way
from gradwright.derivatives.suspicions import ask, is_right_twice
from gradwright.errors import NoSecondDerivative
from gradwright.ground.torch_versions.nodes import forward_class

_ATTENTION = (
    "compute this attention with the decomposed kernel: with torch.nn.attention.sdpa_kernel("
    "torch.nn.attention.SDPBackend.MATH): around the forward"
)
_RNN = (
    "run the forward under torch.backends.cudnn.flags(enabled=False) (it then records the decomposed cell), or build "
    "the network from nn.LSTMCell / nn.GRUCell"
)
_LOSS = "write this loss in torch operations, per sample"
_EMBEDDING_BAG = "use torch.nn.functional.embedding and sum or mean its rows"
_CTC = "its gradient is computed in closed form, once: keep it out of what is differentiated twice"
_MKLDNN = "convert the tensors with .to_dense(), so that the plain kernel is recorded"
_FAKE_QUANTIZE = "use torch.fake_quantize_per_tensor_affine with constant scales, or quantise after these derivatives"

#: Nodes whose backward autograd may not be able to differentiate, and what to do then: see NOTE [Suspicions].  Found by
#: taking the second derivative of every operator in torch.testing's op_db (CPU, float64), and for kernels of
#: accelerators by reading torchgen's derivatives.yaml: formulas that call a ``*_backward`` which has no formula itself,
#: or says ``not_implemented``.
WITHOUT_SECOND = {
    "ScaledDotProductFlashAttentionForCpuBackward0": _ATTENTION,
    "ScaledDotProductFlashAttentionBackward0": _ATTENTION,
    "ScaledDotProductEfficientAttentionBackward0": _ATTENTION,
    "ScaledDotProductCudnnAttentionBackward0": _ATTENTION,
    "ScaledDotProductFusedAttentionOverrideableBackward0": _ATTENTION,
    "FlashAttentionBackward0": _ATTENTION,
    "EfficientAttentionBackward0": _ATTENTION,
    "CudnnAttentionBackward0": _ATTENTION,
    "CudnnRnnBackward0": _RNN,
    "MiopenRnnBackward0": _RNN,
    "CdistBackward0": "torch.cdist(a, b, compute_mode='use_mm_for_euclid_dist') for p=2, or the norm of a[:, None] - b",
    "PdistBackward0": "take the norm of x[:, None] - x at the pairs of torch.triu_indices",
    "HardsigmoidBackward0": "write torch.nn.functional.relu6(x + 3) / 6",
    "MaskedSoftmaxBackward0": "write torch.softmax(x.masked_fill(mask, -torch.inf), dim)",
    "EmbeddingBagBackward0": _EMBEDDING_BAG,
    "SegmentReduceBackward0": "use torch.scatter_reduce or index_add",
    "SparseMmReduceImplBackward0": "use torch.sparse.mm without reduce",
    "StandardGammaBackward0": "keep the sampling out of what is differentiated twice, or draw normal variables",
    "CtcLossBackward0": _CTC,
    "CtcLossBackward1": _CTC,
    "CudnnCtcLossBackward0": _CTC,
    "CudnnCtcLossBackward1": _CTC,
    "MiopenCtcLossBackward0": _CTC,
    "MiopenCtcLossBackward1": _CTC,
    "MultiMarginLossBackward0": _LOSS,
    "MultilabelMarginLossBackward0": _LOSS,
    "FakeQuantizeLearnablePerTensorAffineBackward0": _FAKE_QUANTIZE,
    "FakeQuantizeLearnablePerChannelAffineBackward0": _FAKE_QUANTIZE,
    "WeightNormInterfaceBackward0": (
        "write w = g * v / v.norm(dim=..., keepdim=True): torch's fused weight norm keeps its norm as a constant, and "
        "its second derivative with respect to v is wrong, without an error"
    ),
    # torch masks the slope at 0 in a way that makes the second derivative there 0, where it is -pi^2 / 3
    "SincBackward0": "write this step in other torch operations",
    "CudnnAffineGridGeneratorBackward0": "run the forward under torch.backends.cudnn.flags(enabled=False)",
    "MkldnnLinearBackward0": _MKLDNN,
    "MkldnnMaxPool2DBackward0": _MKLDNN,
    "MkldnnMaxPool3DBackward0": _MKLDNN,
    "MkldnnAdaptiveAvgPool2DBackward0": _MKLDNN,
}

#: Every function that once_differentiable wraps gets a wrapper with this code.
_ONCE = once_differentiable(lambda ctx, cotangent: cotangent).__code__


def require_twice(way: Way) -> None:
    """Make sure that every step on the way has a second derivative that autograd records.

    Call it before anything is computed, wherever a result is to be differentiated again.  Only the way counts: what
    lies beside it is differentiated once at most.
    Cost: a look into a table for each step; some milliseconds where a suspicious kind of node is met first.
    Raises: NoSecondDerivative, naming the node, its line where known, and the remedy for its kind.
    """
    for step in way.steps:
        remedy = _remedy(step.node, step.name)
        if remedy is not None:
            where = line_of(step.node) or HOW_TO_LEARN_LINES
            raise NoSecondDerivative(
                f"{step.name} has no second derivative, and what was asked for (create_graph=True, or a derivative of "
                f"second order) needs one.\n"
                f"  where  {where}\n"
                f"         between y {list(way.output.shape)} and {way.target.describe()}\n"
                f"  do     {remedy}"
            )


def lacks_second(name: str) -> bool:
    """Whether a kind of node of torch's own has no second derivative here."""
    return name in WITHOUT_SECOND and ask(is_right_twice, name).holds


def _remedy(node: Any, name: str) -> str | None:
    """What to do about a node without a second derivative; None for a node that has one, as far as is known."""
    suspected = WITHOUT_SECOND.get(name)
    if suspected is not None:
        answer = ask(is_right_twice, name)
        return suspected + answer.describe_origin() if answer.holds else None
    author = forward_class(node)
    if author is None:
        return None
    if author.__module__.startswith("torch._functorch._aot_autograd"):
        return (
            "call the uncompiled function here: model._orig_mod(x) for a module that torch.compile made, the original "
            "function, or torch.compiler.set_stance('force_eager') around the forward"
        )
    if any(getattr(function, "__code__", None) is _ONCE for function in decorated(node)):
        return (
            "its backward is once_differentiable: write it in torch operations on saved tensors, without that "
            "decorator, or give the gradient by gw.custom_gradient"
        )
    return None
