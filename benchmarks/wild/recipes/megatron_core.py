"""megatron-core 0.19.2: fused activations and the router."""

from collections.abc import Iterator

import torch

from wild.case import SUMMED, Case, case
from wild.loading import load, stand_in


def cases() -> Iterator[Case]:
    stand_in("megatron.core.jit", jit_fuser=lambda function: function)  # torch.compile, left out
    stand_in("megatron.core.utils", nvtx_decorator=lambda: lambda function: function)
    geglu = load("megatron.core.fusions.fused_bias_geglu", "megatron-core")
    gelu = load("megatron.core.fusions.fused_bias_gelu", "megatron-core")
    swiglu = load("megatron.core.fusions.fused_bias_swiglu", "megatron-core")
    squared = load("megatron.core.fusions.fused_weighted_squared_relu", "megatron-core")
    x, bias, weights = torch.randn(3, 2, 8), torch.randn(8), torch.rand(6, 1)
    x, bias, weights = (value.requires_grad_() for value in (x, bias, weights))
    yield case(geglu.BiasGeGLUFunction, x, bias, GW203=SUMMED)
    yield case(geglu.GeGLUFunction, x)
    yield case(
        geglu.WeightedQuickGeGLUFunction, torch.randn(6, 8, requires_grad=True), weights, False, torch.tensor(0.5)
    )
    yield case(
        geglu.WeightedBiasQuickGeGLUFunction,
        torch.randn(6, 8, requires_grad=True),
        bias,
        weights,
        False,
        torch.tensor(0.5),
        GW203=SUMMED,
    )
    yield case(gelu.GeLUFunction, x, bias, GW203=SUMMED)
    yield case(swiglu.BiasSwiGLUFunction, x, bias, False, False, GW203=SUMMED)
    yield case(swiglu.SwiGLUFunction, x, False, False)
    yield case(swiglu.WeightedSwiGLUFunction, torch.randn(6, 8, requires_grad=True), weights, False)
    yield case(squared.WeightedSquaredReLUFunction, torch.randn(6, 8, requires_grad=True), weights)
