"""torchray 1.0.0.2: attribution by changed gradients."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    decon = load("torchray.attribution.deconvnet", "torchray", absent=("torchray.attribution.common", "torchray.utils"))
    guided = load("torchray.attribution.guided_backprop", "torchray", absent=("torchray.attribution.common",))
    meant = "another gradient is the method"
    yield case(decon.DeConvNetReLU, torch.randn(3, 4), truth="surrogate", why=meant)
    yield case(guided.GuidedBackpropReLU, torch.randn(3, 4), truth="surrogate", why=meant)
