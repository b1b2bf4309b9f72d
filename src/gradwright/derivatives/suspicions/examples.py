"""Small calls that record the nodes under suspicion, on a CPU: a function and its input.

All that the operation differentiates is packed into the one input, in float64 where there is a kernel for it. Settings
with formulas of their own stand side by side in one call. No call draws from torch's global random numbers, or looks at
its default device and dtype. A kernel that a CPU doesn't have has no example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Example(NamedTuple):
    """``function`` of a tensor like ``x`` records the node between ``x`` and its result."""

    function: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64

    def draw_input(self) -> Tensor:
        """Numbers between 0.1 and 0.9 in no order, the same each time; no two differences are the same."""
        count = torch.arange(torch.Size(self.shape).numel(), dtype=torch.float64, device="cpu")
        numbers = (count.square() * 0.618034 + count * 0.414214 + 0.5).frac() * 0.8 + 0.1
        return numbers.reshape(self.shape).to(self.dtype).requires_grad_()


def _cat(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def _whole(*numbers: int) -> Tensor:
    return torch.tensor(numbers, device="cpu")


def _zeros(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float32, device="cpu")


def _generator() -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(0)


def _distances(x: Tensor) -> Tensor:
    """Of rows of two sets, [2, 3, 4] each."""
    return _cat([torch.cdist(x[:2], x[2:], p, "donot_use_mm_for_euclid_dist") for p in (1.0, 2.0, 3.0, torch.inf)])


def _ctc(lengths: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    """``x``: [steps, samples, classes]."""
    targets = [[1, 2], [1, 1]]
    return lambda x: torch._ctc_loss(
        x.log_softmax(2), torch.tensor(targets, device="cpu"), lengths(5, 5), lengths(2, 2)
    )[0]


def _running() -> tuple[Tensor, Tensor]:
    """A mean and a deviation that a kernel may change in place."""
    return torch.zeros(3, dtype=torch.float64, device="cpu"), torch.ones(3, dtype=torch.float64, device="cpu")


EXAMPLES: dict[str, Example] = {
    "AsStridedScatterBackward0": Example(
        lambda x: torch.as_strided_scatter(x[:9].reshape(3, 3), x[9:].reshape(2, 2), (2, 2), (1, 2), 1), (13,)
    ),
    "BatchNormWithUpdateBackward0": Example(
        lambda x: torch.ops.aten._batch_norm_with_update(x[:3], x[3], x[4], *_running(), 0.1, 1e-5)[0], (5, 3)
    ),
    "CdistBackward0": Example(_distances, (4, 3, 4)),
    "CtcLossBackward0": Example(_ctc(lambda *lengths: list(lengths)), (5, 2, 4)),
    "CtcLossBackward1": Example(_ctc(_whole), (5, 2, 4)),
    "CummaxBackward0": Example(lambda x: x.cummax(1)[0], (2, 4)),
    "CumminBackward0": Example(lambda x: x.cummin(1)[0], (2, 4)),
    "EmbeddingBagBackward0": Example(
        lambda x: _cat(
            [F.embedding_bag(_whole(0, 1, 2, 3).reshape(2, 2), x, mode=how) for how in ("sum", "mean", "max")]
        ),
        (4, 3),
    ),
    "FakeQuantizeLearnablePerChannelAffineBackward0": Example(
        lambda x: torch._fake_quantize_learnable_per_channel_affine(x[:2], x[2, :2], _zeros(2), 0, 0, 255, 1.0),
        (3, 4),
        torch.float32,
    ),
    "FakeQuantizeLearnablePerTensorAffineBackward0": Example(
        lambda x: torch._fake_quantize_learnable_per_tensor_affine(x[:2], x[2, :1], _zeros(1), 0, 255, 1.0),
        (3, 4),
        torch.float32,
    ),
    "FractionalMaxPool2DBackward0": Example(
        lambda x: F.fractional_max_pool2d(
            x, 2, (2, 2), _random_samples=torch.full((2, 1, 2), 0.5, dtype=torch.float64, device="cpu")
        ),
        (2, 1, 4, 4),
    ),
    "HardsigmoidBackward0": Example(lambda x: F.hardsigmoid(20 * x - 10), (4, 3)),
    "MaskedSelectBackward0": Example(lambda x: x.masked_select(_whole(0, 1, 2)[:, None] != _whole(2, 1, 0)), (3,)),
    "MaskedSoftmaxBackward0": Example(
        lambda x: torch._masked_softmax(x, torch.zeros(4, 3, dtype=torch.bool, device="cpu"), 1, 2), (4, 3)
    ),
    "MishBackward0": Example(F.mish, (2, 4)),
    "MultiMarginLossBackward0": Example(
        lambda x: F.multi_margin_loss(x, _whole(0, 1, 2, 0), p=2, reduction="none"), (4, 3)
    ),
    "MultilabelMarginLossBackward0": Example(
        lambda x: F.multilabel_margin_loss(x, _whole(0, 1, -1).expand(4, 3), reduction="none"), (4, 3)
    ),
    "NativeBatchNormBackward0": Example(
        lambda x: torch.native_batch_norm(x[:3], x[3], x[4], None, None, True, 0.1, 1e-5)[0], (5, 3)
    ),
    "NativeBatchNormLegitBackward0": Example(
        lambda x: torch._native_batch_norm_legit(x[:3], x[3], x[4], *_running(), True, 0.1, 1e-5)[0], (5, 3)
    ),
    "NativeBatchNormLegitBackward1": Example(
        lambda x: torch._native_batch_norm_legit(x[:3], x[3], x[4], True, 0.1, 1e-5)[0], (5, 3)
    ),
    "NativeLayerNormBackward0": Example(lambda x: F.layer_norm(x[:3], (4,), x[3], x[4]), (5, 4)),
    "PdistBackward0": Example(lambda x: _cat([torch.pdist(x, p) for p in (1.0, 2.0, 3.0, torch.inf)]), (4, 3)),
    "RreluWithNoiseBackward0": Example(
        lambda x: torch.ops.aten.rrelu_with_noise(x - 0.5, torch.empty_like(x), 0.1, 0.3, True, _generator()), (2, 4)
    ),
    "ScaledDotProductFlashAttentionForCpuBackward0": Example(
        lambda x: torch._scaled_dot_product_flash_attention_for_cpu(x[:2], x[2:4], x[4:])[0], (6, 1, 3, 4)
    ),
    "SegmentReduceBackward0": Example(
        lambda x: _cat([torch.segment_reduce(x, how, lengths=_whole(2, 3)) for how in ("sum", "mean", "prod", "max")]),
        (5,),
    ),
    "SincBackward0": Example(lambda x: torch.sinc(x - 0.5), (3,)),  # at 0: the first number is 0.5
    "SoftMarginLossBackward0": Example(lambda x: F.soft_margin_loss(x, torch.ones_like(x), reduction="none"), (2, 4)),
    "SparseMmReduceImplBackward0": Example(
        lambda x: torch.sparse.mm(
            torch.sparse_csr_tensor(_whole(0, 1, 3), _whole(0, 0, 1), _whole(1, 2, 3).double(), (2, 2)), x, "mean"
        ),
        (2, 4),
    ),
    "StandardGammaBackward0": Example(lambda x: torch._standard_gamma(x, _generator()), (4, 3)),
    "TrilinearBackward0": Example(lambda x: F.bilinear(x[:3], x[3:6], x[6:].reshape(2, 4, 4)), (14, 4)),
    "UnfoldBackward0": Example(lambda x: x.unfold(1, 2, 1), (2, 4)),
    "UpsampleNearestExact1DBackward0": Example(
        lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest-exact"), (2, 1, 4)
    ),
    "WeightNormInterfaceBackward0": Example(lambda x: torch._weight_norm(x[:, :3], x[:, 3:], 0), (4, 4)),
}
