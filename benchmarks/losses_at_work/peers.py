"""Who else has a loss: torch.nn.functional, segmentation_models_pytorch (smp), MONAI, kornia, torchvision's formula;
on a GPU Liger-Kernel.

They stand in ``tests/real/requirements.txt``; where one is not installed its column stays empty.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from losses_at_work.subject import Maker


def torchs(function: Callable[..., Tensor]) -> Maker:
    return lambda: function


def smp(make: Callable[[Any], Callable[..., Tensor]]) -> Maker:
    return lambda: _made("smp", make)


def monai(make: Callable[[Any], Callable[..., Tensor]]) -> Maker:
    return lambda: _made("MONAI", make)


def kornia(make: Callable[[Any], Callable[..., Tensor]]) -> Maker:
    return lambda: _made("kornia", make)


def liger_cross_entropy() -> Callable[..., Tensor] | None:
    """Liger-Kernel's mean cross entropy of logits [N, C] and class numbers; its module needs no transformers. It writes
    the gradient over the logits."""
    try:
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    except ImportError:
        return None
    # No weight, ignored class -100, no term of the squared log-sum, no smoothing, mean, no cap, the loss alone.
    options = (None, -100, 0.0, 0.0, "mean", None, False, False, False)
    return lambda z, y: LigerCrossEntropyFunction.apply(z, y, *options)[0]


def _made(name: str, make: Callable[[Any], Callable[..., Tensor]]) -> Callable[..., Tensor] | None:
    module = _library(name)
    return None if module is None else make(module)


@cache
def _library(name: str) -> types.ModuleType | None:
    """Its module of losses."""
    try:
        if name == "smp":
            return _losses_of_smp()
        return importlib.import_module({"MONAI": "monai.losses", "kornia": "kornia.losses"}[name])
    except ImportError:
        return None


def _losses_of_smp() -> types.ModuleType:
    """Without its models: the package's own ``__init__`` would import timm and torchvision, which no loss needs."""
    package = "segmentation_models_pytorch"
    if package not in sys.modules:
        found = importlib.util.find_spec(package)
        if found is None:
            raise ImportError(package)
        bare = types.ModuleType(package)
        bare.__path__ = list(found.submodule_search_locations or ())
        sys.modules[package] = bare
    return importlib.import_module(f"{package}.losses")


def torchvision_focal(
    inputs: Tensor, targets: Tensor, reduction: str = "mean", alpha: float = 0.25, gamma: float = 2.0
) -> Tensor:
    """The formula of torchvision.ops.sigmoid_focal_loss, as published in torchvision 0.2x (its package would bring
    another torch)."""
    p = torch.sigmoid(inputs)
    ce_loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce_loss * ((1 - p_t) ** gamma)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    loss = alpha_t * loss
    return loss.mean() if reduction == "mean" else loss
