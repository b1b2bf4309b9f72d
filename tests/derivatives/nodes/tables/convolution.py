"""Uses of convolutions, pooling and resizing."""

import torch
import torch.nn.functional as F
from tests.derivatives.nodes.judge import Case, given
from torch import Tensor


def modulated(z: Tensor) -> Tensor:
    """A weight per sample, by groups: the batch lies along the channels."""
    return F.conv1d(z, given(4, 3, 2), groups=2)


def fractional(z: Tensor) -> Tensor:
    samples = torch.tensor([[[0.3, 0.6], [0.2, 0.9]]], dtype=torch.float64).expand(2, 2, 2)
    return F.fractional_max_pool2d(z, 2, output_size=2, _random_samples=samples)


def in_one_dimension(mode: str, **options: object):
    return lambda z: F.interpolate(z, mode=mode, **options)


CASES = [
    Case("conv1d", lambda z: F.conv1d(z, given(2, 3, 2), given(2)), (2, 3, 4), {0: 0}),
    Case("conv1d-padded-strided", lambda z: F.conv1d(z, given(2, 3, 2), padding=1, stride=2), (2, 3, 5), {0: 0}),
    Case("conv1d-dilated", lambda z: F.conv1d(z, given(1, 2, 2), dilation=2), (3, 2, 5), {0: 0}),
    Case("conv1d-groups", lambda z: F.conv1d(z, given(4, 1, 2), groups=2), (3, 2, 3), {0: 0}, pattern="exact"),
    Case("conv1d-modulated", modulated, (1, 6, 3), {}, pattern="none"),
    Case("conv1d-weight", lambda z: F.conv1d(given(2, 3, 4), z), (2, 3, 2), {}, push=0, pattern="none"),
    Case("conv1d-bias", lambda z: F.conv1d(given(2, 3, 4), given(2, 3, 2), z), (2,), {}, push=0, pattern="none"),
    Case(
        "conv1d-depthwise-bias",
        lambda z: F.conv1d(given(2, 3, 4), given(3, 1, 2), z, groups=3),
        (3,),
        {1: 0},
        0,
        "none",
    ),
    Case("conv1d-depthwise-weight", lambda z: F.conv1d(given(2, 3, 4), z, groups=3), (3, 1, 2), {1: 0}, 0, "none"),
    Case("conv-transposed", lambda z: F.conv_transpose1d(z, given(3, 2, 2), stride=2), (2, 3, 3), {0: 0}),
    Case(
        "conv-transposed-groups",
        lambda z: F.conv_transpose1d(z, given(4, 2, 2), stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 3),
        {0: 0},
    ),
    Case(
        "conv-transposed-depthwise",
        lambda z: F.conv_transpose1d(given(1, 4, 2), z, groups=4),
        (4, 1, 2),
        {1: 0},
        0,
        "none",
    ),
    Case("conv2d", lambda z: F.conv2d(z, given(2, 2, 2, 2), given(2), padding=1), (2, 2, 3, 2), {0: 0}),
    Case("conv3d", lambda z: F.conv3d(z, given(1, 2, 2, 1, 2)), (2, 2, 2, 2, 3), {0: 0}),
    Case("max-pool", lambda z: F.max_pool2d(z, 2, 1), (2, 2, 3, 3), {0: 0, 1: 1}, pattern="covers"),
    Case(
        "max-pool-1d", lambda z: F.max_pool2d(z, (1, 2), padding=(0, 1)), (2, 2, 1, 5), {0: 0, 1: 1}, pattern="covers"
    ),
    Case("max-pool-of-one-image", lambda z: F.max_pool2d(z, 2), (3, 4, 4), {0: 0}, pattern="covers"),
    Case("max-pool-3d", lambda z: F.max_pool3d(z, 2, 1), (2, 1, 2, 3, 2), {0: 0}, pattern="covers"),
    Case("adaptive-max-pool", lambda z: F.adaptive_max_pool2d(z, (2, 1)), (2, 2, 3, 3), {0: 0, 1: 1}, pattern="covers"),
    Case(
        "adaptive-max-pool-3d", lambda z: F.adaptive_max_pool3d(z, 1), (2, 2, 2, 2, 2), {0: 0, 1: 1}, pattern="covers"
    ),
    Case("fractional-max-pool", fractional, (2, 2, 4, 4), {0: 0, 1: 1}, pattern="covers"),
    Case("avg-pool", lambda z: F.avg_pool2d(z, 2, 1, padding=1), (2, 2, 3, 2), {0: 0, 1: 1}),
    Case("avg-pool-of-one-image", lambda z: F.avg_pool2d(z, 2, divisor_override=3), (2, 4, 4), {0: 0}),
    Case("avg-pool-3d", lambda z: F.avg_pool3d(z, 2, 1, count_include_pad=False, padding=1), (2, 1, 2, 2, 2), {0: 0}),
    Case("adaptive-avg-pool", lambda z: F.adaptive_avg_pool2d(z, (2, 2)), (2, 2, 3, 3), {0: 0, 1: 1}),
    Case("adaptive-avg-pool-3d", lambda z: F.adaptive_avg_pool3d(z, 2), (2, 1, 3, 2, 2), {0: 0}),
    Case("nearest-1d", in_one_dimension("nearest", scale_factor=2), (2, 2, 3), {0: 0, 1: 1}),
    Case("nearest-2d", in_one_dimension("nearest", size=(3, 2)), (2, 2, 2, 2), {0: 0, 1: 1}),
    Case("nearest-3d", in_one_dimension("nearest", scale_factor=2), (2, 1, 2, 1, 2), {0: 0}),
    Case("nearest-exact-1d", in_one_dimension("nearest-exact", size=4), (2, 2, 3), {0: 0, 1: 1}),
    Case("nearest-exact-2d", in_one_dimension("nearest-exact", size=(3, 2)), (2, 2, 2, 2), {0: 0, 1: 1}),
    Case("nearest-exact-3d", in_one_dimension("nearest-exact", scale_factor=2), (2, 1, 2, 1, 2), {0: 0}),
    Case("linear-1d", in_one_dimension("linear", scale_factor=2), (2, 2, 3), {0: 0, 1: 1}),
    Case("linear-1d-corners", in_one_dimension("linear", size=5, align_corners=True), (2, 2, 3), {0: 0, 1: 1}),
    Case("bilinear", in_one_dimension("bilinear", size=(3, 5)), (2, 2, 2, 3), {0: 0, 1: 1}),
    Case("bicubic", in_one_dimension("bicubic", size=(3, 5)), (2, 2, 2, 3), {0: 0, 1: 1}, pattern="none"),
    Case("trilinear", in_one_dimension("trilinear", scale_factor=2), (2, 1, 2, 1, 2), {0: 0}),
    Case("unfold", lambda z: F.unfold(z, 2, padding=1), (2, 2, 3, 2), {0: 0}),
    Case("fold", lambda z: F.fold(z, (3, 3), 2), (2, 4, 4), {0: 0}),
]
