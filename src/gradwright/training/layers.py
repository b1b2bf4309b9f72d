"""Layers by which a micro-batch is not a piece of its batch: their names are told once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import nn

from gradwright.ground.torch_versions.modules import BatchNorm

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def batch_norms(model: nn.Module) -> list[str]:
    """Names of layers that normalise over the batch, in training."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, BatchNorm) and (module.training or module.running_mean is None)
    ]


def dropouts(model: nn.Module) -> list[str]:
    """Names of layers that draw masks."""
    return [name for name, module in model.named_modules() if module.training and _draws(module)]


def _draws(module: nn.Module) -> bool:
    if isinstance(module, _DROPOUTS):
        return module.p > 0
    if isinstance(module, nn.RNNBase):  # between its layers
        return module.dropout > 0 and module.num_layers > 1
    return isinstance(module, nn.MultiheadAttention) and module.dropout > 0


def warn_of_coupled_layers(model: nn.Module) -> None:
    norms, drawn = batch_norms(model), dropouts(model)
    if norms:
        warnings.warn(
            f"batch normalisation ({named(norms)}) takes its statistics over each micro-batch by itself, so the sum "
            "is not the full batch's gradient (6e-3 off in a small net). GroupNorm and LayerNorm do not couple "
            "samples; .eval() holds the statistics fixed",
            stacklevel=4,
        )
    if drawn:
        warnings.warn(
            f"dropout ({named(drawn)}) draws other masks for micro-batches than for the full batch, so their "
            "gradients agree on average only",
            stacklevel=4,
        )


def named(names: Sequence[str]) -> str:
    """The first of them, for a message."""
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(name or 'the model' for name in names[:2])}{more}"
